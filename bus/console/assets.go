package console

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
)

//go:embed assets
var assetFiles embed.FS

// versions are those of the assets that pages load, by name: a version is of the content.
var versions = assetVersions()

func assetVersions() map[string]string {
	list := map[string]string{}
	err := fs.WalkDir(assetFiles, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := assetFiles.ReadFile(name)
		list[e.Name()] = fmt.Sprintf("%.6x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		panic("the console's assets cannot be read: " + err.Error())
	}
	return list
}

// assetPath returns where a page loads an asset; it changes with the content.
func assetPath(name string) string { return "/console/assets/" + name + "?v=" + versions[name] }

// serveAsset serves an asset: the same to everyone, with or without credential.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	version, ok := versions[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("ETag", `"`+version+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == version {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, assetFiles, "assets/"+name)
}

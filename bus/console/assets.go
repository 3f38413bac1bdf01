package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed assets
var assetFiles embed.FS

// versions are those of the assets that pages load, by name: a version is of the content.
var versions = assetVersions()

func assetVersions() map[string]string {
	list := map[string]string{}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic("the console's assets are missing: " + err.Error())
	}
	for _, e := range entries {
		b, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic("the console's assets cannot be read: " + err.Error())
		}
		sum := sha256.Sum256(b)
		list[e.Name()] = hex.EncodeToString(sum[:6])
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

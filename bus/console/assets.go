package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assetFiles embed.FS

// An asset is a file that pages load.
type asset struct {
	content []byte
	kind    string
	version string // of its content
}

var assets = loadAssets()

var assetKinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".LICENSE": "text/plain; charset=utf-8",
}

func loadAssets() map[string]asset {
	list := map[string]asset{}
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
		list[e.Name()] = asset{content: b, kind: assetKinds[path.Ext(e.Name())], version: hex.EncodeToString(sum[:6])}
	}
	return list
}

// assetPath is where a page loads an asset; it changes with its content.
func assetPath(name string) string { return "/console/assets/" + name + "?v=" + assets[name].version }

// serveAsset serves one: the same to everyone, with or without credential.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok || a.kind == "" {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("ETag", `"`+a.version+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.version {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), a.version) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(a.content) //nolint:errcheck // the client went away
}

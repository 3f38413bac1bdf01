package tgtest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-telegram/bot/models"
)

type file struct {
	path    string
	mime    string
	content []byte
}

// AddFile stores a file and returns its file_id.
func (s *Server) AddFile(name, mime string, content []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("file-%d", len(s.files)+1)
	s.files[id] = &file{path: fmt.Sprintf("documents/%s_%s", id, name), mime: mime, content: content}
	return id
}

func (s *Server) getFile(req *request) (any, *apiError) {
	id := req.str("file_id")
	f, ok := s.files[id]
	if !ok {
		return nil, badRequest("invalid file_id")
	}
	return models.File{FileID: id, FileUniqueID: "u" + id, FileSize: int64(len(f.content)), FilePath: f.path}, nil
}

// serveFile answers /file/bot<token>/<path>.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, path string) {
	token, name, _ := strings.Cut(path, "/")
	if token != s.token {
		writeError(w, errf(http.StatusUnauthorized, "Unauthorized"))
		return
	}
	s.mu.Lock()
	var found *file
	for _, f := range s.files {
		if f.path == name {
			found = f
		}
	}
	s.mu.Unlock()
	if found == nil || r.Method != http.MethodGet {
		writeError(w, errf(http.StatusNotFound, "Not Found"))
		return
	}
	w.Header().Set("Content-Type", found.mime)
	_, _ = w.Write(found.content) // the client may be gone
}

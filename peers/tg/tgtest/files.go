package tgtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-telegram/bot/models"
)

const maxCaption = 1024 // UTF-16 units

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
	s.recordLocked(req, nil)
	return models.File{FileID: id, FileUniqueID: "u" + id, FileSize: int64(len(f.content)), FilePath: f.path}, nil
}

// sendPhoto accepts only a picture, as Telegram does.
func (s *Server) sendPhoto(c *chat, req *request) (any, *apiError) {
	id, f, err := s.uploadLocked(req, "photo")
	if err != nil {
		return nil, err
	}
	if kind := http.DetectContentType(f.content); !strings.HasPrefix(kind, "image/") ||
		strings.Contains(string(f.content), "wide") {
		delete(s.files, id)
		return nil, badRequest("PHOTO_INVALID_DIMENSIONS")
	}
	return s.sendFile(c, req, &models.Message{Photo: []models.PhotoSize{{FileID: id, FileUniqueID: "u" + id,
		FileSize: len(f.content)}}})
}

func (s *Server) sendDocument(c *chat, req *request) (any, *apiError) {
	id, f, err := s.uploadLocked(req, "document")
	if err != nil {
		return nil, err
	}
	_, name, _ := strings.Cut(f.path, "_")
	return s.sendFile(c, req, &models.Message{Document: &models.Document{FileID: id, FileUniqueID: "u" + id,
		FileName: name, FileSize: int64(len(f.content))}})
}

// uploadLocked stores the file of a form.
func (s *Server) uploadLocked(req *request, field string) (id string, f *file, failed *apiError) {
	if req.MultipartForm == nil || len(req.MultipartForm.File[field]) != 1 {
		return "", nil, badRequest("there is no %s in the request", field)
	}
	header := req.MultipartForm.File[field][0]
	r, err := header.Open()
	if err != nil {
		return "", nil, badRequest("wrong file")
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil || len(content) == 0 {
		return "", nil, badRequest("file must be non-empty")
	}
	id = fmt.Sprintf("file-%d", len(s.files)+1)
	s.files[id] = &file{path: fmt.Sprintf("documents/%s_%s", id, header.Filename), content: content}
	return id, s.files[id], nil
}

// sendFile sends a message with a file.
func (s *Server) sendFile(c *chat, req *request, m *models.Message) (any, *apiError) {
	if m.Caption = req.str("caption"); units(m.Caption) > maxCaption {
		return nil, badRequest("message caption is too long")
	}
	if err := req.decode("caption_entities", &m.CaptionEntities); err != nil {
		return nil, err
	}
	return s.addLocked(c, req, m)
}

// Content returns the content of a file that was added or sent.
func (s *Server) Content(fileID string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[fileID]; f != nil {
		return f.content
	}
	return nil
}

// serveFile serves /file/bot<token>/<path>.
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

package httpapi

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/gorilla/mux"
)

// pageFiles is the web page: index.html, and assets as it names them. It has no build step, and asks no other host.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load and ask for nothing but what the agent serves (Content Security Policy Level 3). Nothing
// is inline, so what a switch or a client puts into a text can't become code.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (s *Server) getPage(w http.ResponseWriter, r *http.Request) error {
	return servePage(w, r, "index.html")
}

func (s *Server) getAsset(w http.ResponseWriter, r *http.Request) error {
	return servePage(w, r, "assets/"+mux.Vars(r)["asset"])
}

// isPage reports whether a path is of the page's own files.
func isPage(urlPath string) bool { return urlPath == "/" || strings.HasPrefix(urlPath, "/assets/") }

// servePage answers with a file of the page. A browser asks each time whether it has the right one, so that a new agent
// never meets an old page.
func servePage(w http.ResponseWriter, r *http.Request, name string) error {
	content, err := fs.ReadFile(pageFiles, path.Join("page", name))
	if err != nil {
		return errNotFound()
	}
	sum := sha256.Sum256(content)
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}

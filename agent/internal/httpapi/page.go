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
	"sync"
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

// A pageFile is a file of the page in the two forms in which it is served.
type pageFile struct {
	kind        string // its media type
	plain, gzip content
}

// content is what is sent, with its name in caches.
type content struct {
	data []byte
	etag string
}

func newContent(data []byte) content {
	sum := sha256.Sum256(data)
	return content{data, `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// readPage reads the page once, and compresses what is not small.
var readPage = sync.OnceValue(func() map[string]pageFile {
	files := map[string]pageFile{}
	err := fs.WalkDir(pageFiles, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(pageFiles, name)
		if err != nil {
			return err
		}
		file := pageFile{kind: mime.TypeByExtension(path.Ext(name)), plain: newContent(data)}
		if len(data) >= minCompressed {
			file.gzip = newContent(gzipped(data))
		}
		files[strings.TrimPrefix(name, "page/")] = file
		return nil
	})
	if err != nil {
		panic(err) // they are in the binary
	}
	return files
})

// servePage answers with a file of the page. A browser asks each time whether it has the right one, so that a new agent
// never meets an old page.
func servePage(w http.ResponseWriter, r *http.Request, name string) error {
	file, ok := readPage()[name]
	if !ok {
		return errNotFound()
	}
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	form := file.plain
	if file.gzip.data != nil && acceptsGzip(r) {
		form = file.gzip
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", file.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", form.etag)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(form.data))
	return nil
}

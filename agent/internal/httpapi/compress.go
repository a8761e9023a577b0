package httpapi

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// minCompressed is the size, in bytes, below which nothing is compressed: it would save no packet.
const minCompressed = 1024

// newZip makes what compresses the answers of a handler for those who accept it (RFC 9110, section 12.5.3).
func newZip() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
}

// compressed lets a handler answer a browser with gzip. Other clients get what they always got: they are mostly on this
// server or beside it, and would wait for the compression without any gain.
func (s *Server) compressed(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Add("Vary", "User-Agent")
		if !isBrowser(r) {
			return h(w, r)
		}
		var err error
		s.zip(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { err = h(w, r) })).ServeHTTP(w, r)
		return err
	}
}

// isBrowser goes by the one word that all browsers begin with.
func isBrowser(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "Mozilla/") }

// acceptsGzip reads Accept-Encoding: gzip is listed, and not with a weight of 0.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		q, err := strconv.ParseFloat(strings.TrimPrefix(weight, "q="), 64)
		if strings.EqualFold(name, "gzip") && (err != nil || q > 0) {
			return true
		}
	}
	return false
}

// gzipped compresses what is served many times.
func gzipped(content []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(content) // to memory
	_ = w.Close()
	return b.Bytes()
}

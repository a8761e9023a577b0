package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
)

// bodies keeps the encoded status of muxes. Of one mux in one state only the flap counter varies, and there are sixteen
// states; so each is encoded once, and later answers are copies with a number in the middle.
type bodies struct {
	molds sync.Map // bridge → *mold
}

// A mold is what is known of one mux, for as long as its ports are the same.
type mold struct {
	mux   cable.Mux
	parts [2][cable.AllRoles + 1]atomic.Pointer[parts] // by active side and dropped ports
}

// parts are the bytes before and behind the flap counter.
type parts struct{ before, behind []byte }

// appendStatus appends the status of a snapshot, without a newline.
func (c *bodies) appendStatus(b []byte, s *engine.Snapshot) []byte {
	if len(s.Conditions) > 0 {
		p := encodeParts(s)
		return p.append(b, s.Flaps)
	}
	m, ok := c.molds.Load(s.Bridge)
	if !ok || m.(*mold).mux != s.Mux {
		m = &mold{mux: s.Mux}
		c.molds.Store(s.Bridge, m)
	}
	slot := &m.(*mold).parts[s.State.Active][s.State.Dropped]
	p := slot.Load()
	if p == nil {
		p = encodeParts(s)
		slot.Store(p)
	}
	return p.append(b, s.Flaps)
}

func (p *parts) append(b []byte, flaps int) []byte {
	b = append(b, p.before...)
	b = strconv.AppendInt(b, int64(flaps), 10)
	return append(b, p.behind...)
}

// encodeParts encodes a status and cuts the flap counter out. It is the first 0 behind its key: what stands before it in
// the order of the keys are names, in which a quote is escaped.
func encodeParts(s *engine.Snapshot) *parts {
	v := status(s)
	v.FlapCounter = 0
	before, behind, _ := bytes.Cut(encode(v), []byte(`"flap_counter":0`))
	return &parts{before: append(before, `"flap_counter":`...), behind: bytes.TrimSuffix(behind, []byte("\n"))}
}

// one is the answer of a single mux.
func (c *bodies) one(s *engine.Snapshot) []byte {
	return append(c.appendStatus(make([]byte, 0, 640), s), '\n')
}

// all is the answer of many muxes, by bridge.
func (c *bodies) all(snaps []*engine.Snapshot) []byte {
	slices.SortFunc(snaps, func(a, b *engine.Snapshot) int { return strings.Compare(a.Bridge, b.Bridge) })
	b := append(make([]byte, 0, 640*len(snaps)+4), '{')
	for i, s := range snaps {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, s.Bridge...) // nothing in the name of a served bridge needs an escape
		b = append(b, `":`...)
		b = c.appendStatus(b, s)
	}
	return append(b, "}\n"...)
}

// encode is the one place where answers are encoded: compact, sorted by key, ASCII alone, with a newline.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("httpapi: answer of type %T: %v", v, err)) // all answers are plain structs and maps
	}
	return toASCII(b.Bytes())
}

// write sends an encoded answer.
func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is not our error
}

package provider

import (
	"slices"
	"sync"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A run is what one process of the provider has seen and done: Terraform starts one for each plan and one for each apply.
type run struct {
	mu     sync.Mutex
	visits map[place]*visit
	told   map[string]bool
	seen   map[string]map[int]bool
}

// A place is a port, wherever it is.
type place struct {
	endpoint string // in its normal form
	vmSet    string
	port     int
}

// A visit is what happened to a place in this run.
type visit struct {
	original *original // of a resource that gave the port up
	created  bool      // a resource took the port over, and none has given it up since
	read     bool
}

func newRun() *run {
	return &run{visits: map[place]*visit{}, told: map[string]bool{}, seen: map[string]map[int]bool{}}
}

// visit calls f with what happened to a place.
func (r *run) visit(p place, f func(*visit)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.visits[p]
	if v == nil {
		v = &visit{}
		r.visits[p] = v
	}
	f(v)
}

// giveUp ends what a resource had to do with a port. It returns true when a resource of this run had taken the port over: with
// create_before_destroy that one replaces the resource that gives up, and holds the port from now on. Otherwise the original,
// nil for none, is kept for who takes the port over in the same run.
func (r *run) giveUp(p place, o *original) (replaced bool) {
	r.visit(p, func(v *visit) {
		replaced, v.created = v.created, false
		if !replaced {
			v.original = o
		}
	})
	return replaced
}

// takeOver returns the original that was given up, nil for none, and whether another resource has taken the port over.
func (r *run) takeOver(p place) (o *original, twice bool) {
	r.visit(p, func(v *visit) {
		o, twice = v.original, v.created
		v.original, v.created = nil, true
	})
	return o, twice
}

// readTwice reports whether another resource has read the port.
func (r *run) readTwice(p place) (yes bool) {
	r.visit(p, func(v *visit) { yes, v.read = v.read, true })
	return yes
}

// once reports whether it is called for the first time with this key.
func (r *run) once(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.told[key]
	r.told[key] = true
	return first
}

// saw takes in ports that exist, by a key for their vm_set, and reports whether all the given ones were seen or there is no
// use in looking, since once was called with the key.
func (r *run) saw(key string, ports []int, all map[int]api.Status) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[key] == nil {
		r.seen[key] = map[int]bool{}
	}
	for port := range all {
		r.seen[key][port] = true
	}
	return r.told[key] || !slices.ContainsFunc(ports, func(port int) bool { return !r.seen[key][port] })
}

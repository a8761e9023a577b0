package engine

import "sync"

// A runner is work that waits for its turn.
type runner interface{ run() }

// task is a runner that is a function.
type task func()

func (t task) run() { t() }

// An owner lets one at a time own something; the others queue, first come, first served. The zero value is free.
type owner struct {
	mu    sync.Mutex
	owned bool
	queue []runner
}

// try makes r the owner and returns true, or queues r and returns false. r's run is called only from the queue.
func (o *owner) try(r runner) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owned {
		o.queue = append(o.queue, r)
		return false
	}
	o.owned = true
	return true
}

// own runs r as soon as it is the owner. r must not block, and must see to it that release is called.
func (o *owner) own(r runner) {
	if o.try(r) {
		r.run()
	}
}

// hold waits until the caller is the owner. It must release.
func (o *owner) hold() {
	held := make(chan struct{})
	o.own(task(func() { close(held) }))
	<-held
}

// release hands over to the next in the queue.
func (o *owner) release() {
	o.mu.Lock()
	if len(o.queue) == 0 {
		o.owned, o.queue = false, nil
		o.mu.Unlock()
		return
	}
	next := o.queue[0]
	o.queue = o.queue[1:]
	o.mu.Unlock()
	next.run()
}

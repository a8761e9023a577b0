package ovstest

import (
	"net"
	"sync"
	"testing"
)

// Serve listens at path, as a daemon of Open vSwitch does, and has serve talk to each who comes. serve need not close its
// connection. stop closes all, and waits until serve has returned everywhere.
func Serve(tb testing.TB, path string, serve func(c net.Conn)) (stop func()) {
	tb.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	var accepting, serving sync.WaitGroup
	var conns sync.Map
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, nil)
			serving.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	return sync.OnceFunc(func() {
		l.Close()
		accepting.Wait()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		serving.Wait()
	})
}

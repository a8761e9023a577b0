package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// maxMessage bounds one message of the database, in bytes. The greatest that is honest is the first answer to the monitor:
// 6 MB on a server with 22,000 ports beside those of the testbed.
const maxMessage = 16 << 20

// spare is the size in bytes of a message after which the reader gives its memory back.
const spare = 1 << 20

// A conn is one connection to the database (JSON-RPC 1.0, as RFC 7047, section 4, has it). One goroutine reads until the
// connection ends.
type conn struct {
	sock    net.Conn
	timeout time.Duration // for one write
	reading sync.WaitGroup
	ended   chan struct{} // closed when nothing is read any more

	// update takes the parameters of a notification, on the reader's goroutine. An error ends the connection.
	update func(params json.RawMessage) error

	mu      sync.Mutex
	id      uint64
	pending map[uint64]*request
	err     error // why the connection ended

	writing sync.Mutex // held over a write
}

// A request waits for its answer.
type request struct {
	// take, where there is one, has the result on the reader's goroutine, before what the database sends next is read.
	take func(result json.RawMessage) error
	done chan error
}

// A message is a request, an answer, or a notification.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// errUnfit marks a peer that speaks, but not as a database does.
var errUnfit = errors.New("what it sends is not OVSDB")

var errClosed = errors.New("the connection was closed by this agent")

func newConn(sock net.Conn, timeout time.Duration, update func(json.RawMessage) error) *conn {
	c := &conn{sock: sock, timeout: timeout, update: update, ended: make(chan struct{}), pending: map[uint64]*request{}}
	c.reading.Go(c.read)
	return c
}

// close ends the connection and waits for its reader.
func (c *conn) close() {
	c.end(errClosed)
	c.reading.Wait()
}

// end closes the connection for a reason, of which the first stays.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		_ = c.sock.Close()
	}
}

// failure is why the connection ended, nil while it lives.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// A bounded reader ends what is longer than it may be.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: a message of more than %d MB", errUnfit, maxMessage>>20)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (c *conn) read() {
	in := &bounded{r: c.sock}
	messages := json.NewDecoder(in)
	for {
		in.left = maxMessage
		var m message
		before := messages.InputOffset()
		err := messages.Decode(&m)
		if err == nil {
			err = c.handle(m)
		}
		if err != nil {
			c.end(unfit(err))
			break
		}
		if messages.InputOffset()-before > spare {
			messages = json.NewDecoder(io.MultiReader(messages.Buffered(), in))
		}
	}
	c.mu.Lock()
	pending, err := c.pending, c.err
	c.pending = nil
	c.mu.Unlock()
	close(c.ended)
	for _, r := range pending {
		r.done <- err
	}
}

// unfit tells a peer that is not a database from one that went.
func unfit(err error) error {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case errors.Is(err, errUnfit):
		return err
	case syntax || kind:
		return fmt.Errorf("%w: %w", errUnfit, err)
	}
	return fmt.Errorf("connection lost: %w", err)
}

// handle works one message off. An error ends the connection.
func (c *conn) handle(m message) error {
	switch m.Method {
	case "":
		return c.answer(m)
	case "echo": // RFC 7047, 4.1.11: is anybody there?
		if m.ID == nil || m.Params == nil {
			return fmt.Errorf("%w: an echo of nothing", errUnfit)
		}
		return c.write(message{ID: m.ID, Result: m.Params, Error: json.RawMessage("null")})
	case "update": // 4.1.6
		return c.update(m.Params)
	}
	return fmt.Errorf("%w: it asks for %.40q", errUnfit, m.Method)
}

func (c *conn) answer(m message) error {
	var id uint64
	if m.ID == nil || string(m.ID) == "null" || json.Unmarshal(m.ID, &id) != nil {
		return fmt.Errorf("%w: an answer to no request of ours", errUnfit)
	}
	c.mu.Lock()
	r := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if r == nil {
		return nil // nobody waits any more
	}
	var err, broken error
	switch {
	case m.Error != nil && string(m.Error) != "null":
		err = refusal(m.Error)
	case r.take != nil:
		if broken = r.take(m.Result); broken != nil {
			err = fmt.Errorf("%w: %w", errUnfit, broken)
			broken = err
		}
	}
	r.done <- err
	return broken
}

// An Error is what the database says to a request that it does not do (RFC 7047, 4.1.3).
type Error struct {
	Text    string `json:"error"`
	Details string `json:"details"`
}

// Error returns the database's words.
func (e *Error) Error() string {
	if e.Details != "" {
		return e.Text + ": " + e.Details
	}
	return e.Text
}

// refusal reads an error, which is an object or a string.
func refusal(raw json.RawMessage) error {
	var e Error
	if json.Unmarshal(raw, &e) == nil && e.Text != "" || json.Unmarshal(raw, &e.Text) == nil {
		return &e
	}
	return &Error{Text: fmt.Sprintf("%.200s", raw)}
}

// call sends a request and waits until its answer was taken.
func (c *conn) call(ctx context.Context, method string, params any, take func(json.RawMessage) error) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	r := &request{take: take, done: make(chan error, 1)}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	if c.pending == nil {
		c.mu.Unlock()
		<-c.ended
		return c.failure()
	}
	c.id++
	id := c.id
	c.pending[id] = r
	c.mu.Unlock()
	if err := c.write(message{ID: json.RawMessage(fmt.Sprint(id)), Method: method, Params: raw}); err != nil {
		c.end(err)
		<-c.ended
		return c.failure()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		return context.Cause(ctx)
	}
}

// write sends a message. A peer that does not read has the connection's timeout to do so.
func (c *conn) write(m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.sock.SetWriteDeadline(time.Now().Add(c.timeout))
	_, err = c.sock.Write(raw)
	return err
}

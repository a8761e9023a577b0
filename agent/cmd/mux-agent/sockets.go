package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is how long a socket of Open vSwitch may take.
const patience = 3 * time.Second

func dial(ctx context.Context, path string) error {
	conn, err := connect(ctx, path)
	if err != nil {
		return err
	}
	return conn.Close()
}

func connect(ctx context.Context, path string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: patience}
	return dialer.DialContext(ctx, "unix", path)
}

var (
	errNoOpenFlow14 = errors.New("it does not speak OpenFlow 1.4")
	errSilent       = errors.New("it says nothing")
)

// hellos yields for each management socket, in the order of paths, what is wrong with it. It reads the hello that Open
// vSwitch sends by itself, and sends nothing.
func hellos(ctx context.Context, paths []string) iter.Seq2[string, error] {
	errs := make([]error, len(paths))
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() { errs[i] = hello(ctx, path) })
	}
	all.Wait()
	return func(yield func(string, error) bool) {
		for i, path := range paths {
			if !yield(path, errs[i]) {
				return
			}
		}
	}
}

// hello looks for version 5, OpenFlow 1.4, in the bitmap of a hello (OpenFlow 1.4, section 7.5.1).
func hello(ctx context.Context, path string) error {
	const (
		openFlow14 = 5
		headerSize = 8
		bitmap     = 1 // type of the hello's element
	)
	conn, err := connect(ctx, path)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(conn, header); err != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	rest := make([]byte, max(int(binary.BigEndian.Uint16(header[2:]))-headerSize, 0))
	if _, err := io.ReadFull(conn, rest); err != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	if len(rest) >= headerSize && binary.BigEndian.Uint16(rest) == bitmap {
		if binary.BigEndian.Uint32(rest[4:])>>openFlow14&1 == 1 {
			return nil
		}
		return errNoOpenFlow14
	}
	if header[0] < openFlow14 { // without a bitmap it speaks all versions up to this one
		return errNoOpenFlow14
	}
	return nil
}

// isLocal reports whether a host is this machine by one of its addresses.
func isLocal(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(a net.Addr) bool { return strings.HasPrefix(a.String(), addr.String()+"/") })
}

// listeners names the processes that listen on a TCP port, with their addresses, from Linux's /proc (proc(5)). Processes
// of other users are seen by root alone.
func listeners(port string) ([]string, error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	sockets := map[string]string{} // inode → address
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			if os.IsNotExist(err) && table == "/proc/net/tcp6" {
				continue
			}
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			const state, listen, inode = 3, "0A", 9
			fields := strings.Fields(line)
			if len(fields) <= inode || fields[state] != listen {
				continue
			}
			addr, hexPort, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(hexPort, 16, 16); err == nil && n == number {
				sockets[fields[inode]] = net.JoinHostPort(procAddr(addr), port)
			}
		}
	}
	if len(sockets) == 0 {
		return nil, nil
	}
	found := owners(sockets)
	for _, addr := range sockets { // those that are left
		found = append(found, "on "+addr+" a process of another user (root sees which)")
	}
	slices.Sort(found)
	return found, nil
}

// owners names the processes that hold some of the sockets, and takes those out.
func owners(sockets map[string]string) []string {
	var found []string
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // what can't be read is left out
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		inode = strings.TrimSuffix(inode, "]")
		addr, ours := sockets[inode]
		if err != nil || !isSocket || !ours {
			continue
		}
		delete(sockets, inode)
		pid := strings.Split(fd, "/")[2]
		command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		found = append(found, fmt.Sprintf("process %s on %s: %s", pid, addr, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))))
	}
	return found
}

// procAddr reads an address of /proc/net/tcp: 32-bit words in the machine's byte order, in hexadecimal.
func procAddr(text string) string {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return text
	}
	for word := range slices.Chunk(raw, 4) {
		binary.BigEndian.PutUint32(word, binary.NativeEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return text
	}
	return addr.Unmap().String()
}

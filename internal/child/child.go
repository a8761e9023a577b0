// Package child starts the processes of tests: each dies with the test binary, whatever ends that, and is handed no open
// file but its own three. It knows nothing of what it runs. Only tests import it.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// A Process is a running child.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // why it exited; read it after exited
}

// Start starts a command. Its output goes where the command says: a pipe of the command is closed as soon as the process
// exits, whether or not it was read to its end.
func Start(cmd *exec.Cmd) (*Process, error) {
	if err := keepFilesHere(); err != nil {
		return nil, err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Pdeathsig is about the parent's thread, so that must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// keepFilesHere marks every file but the standard three to be closed in children. Those that Go opens are marked so from
// the start; those that the test binary was started with are not, and a daemon that holds the pipe of a shell, or the lock
// of a build, keeps its caller waiting.
func keepFilesHere() error {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, file := range files {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. It is an error when the process has exited.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Exited is closed when the process has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err waits until the process has exited and returns how it did; nil is exit code 0.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// Running reports whether the process has not exited yet.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

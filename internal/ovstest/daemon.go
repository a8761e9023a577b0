package ovstest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// A Daemon is one of the switch's two processes. Its methods fail the test when the process is not in the state they need.
type Daemon struct {
	o     *OVS
	name  string
	args  []string
	netns string
	proc  *process // nil while stopped
}

// Start starts the daemon and waits until it serves.
func (d *Daemon) Start() {
	d.o.tb.Helper()
	if d.running() {
		d.o.tb.Fatalf("%s runs already", d.name)
	}
	args := append(slices.Clip(d.args),
		"--pidfile="+d.o.path(d.name+".pid"), "--log-file="+d.o.path(d.name+".log"), "-vconsole:off", "--no-chdir")
	// A test's context ends before its cleanups, which still use the switch.
	proc, err := startProcess(d.o.command(context.Background(), d.netns, d.name, args...))
	if err != nil {
		d.o.tb.Fatal(err)
	}
	d.proc = proc

	deadline := time.Now().Add(hangLimit)
	for !d.serves() {
		if !d.running() {
			d.o.tb.Fatalf("%s exited: %v\n%s", d.name, proc.err, tail(d.o.path(d.name+".log"), 60))
		}
		if time.Now().After(deadline) {
			d.o.tb.Fatalf("%s does not serve\n%s", d.name, tail(d.o.path(d.name+".log"), 60))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// serves reports whether the daemon answers. An ovs-vswitchd does so once its bridges are up, which it tells by taking a
// change from the database.
func (d *Daemon) serves() bool {
	ctx, cancel := context.WithTimeout(context.Background(), hangLimit)
	defer cancel()
	if err := d.o.command(ctx, "", "ovs-appctl", "--target="+d.name, "version").Run(); err != nil {
		return false
	}
	if d != d.o.Vswitchd {
		return true
	}
	mark := "external_ids:started-pid=" + strconv.Itoa(d.PID())
	return d.o.command(ctx, "", "ovs-vsctl", "set", "Open_vSwitch", ".", mark).Run() == nil
}

// Stop ends the daemon in an orderly way and waits until it is gone.
func (d *Daemon) Stop() { d.o.tb.Helper(); d.end(syscall.SIGTERM) }

// Kill ends the daemon as a crash does.
func (d *Daemon) Kill() { d.o.tb.Helper(); d.end(syscall.SIGKILL) }

// Pause stops the daemon from answering: its sockets stay, and connections to them hang.
func (d *Daemon) Pause() { d.o.tb.Helper(); d.signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (d *Daemon) Continue() { d.o.tb.Helper(); d.signal(syscall.SIGCONT) }

// PID returns the daemon's process id.
func (d *Daemon) PID() int {
	d.o.tb.Helper()
	if !d.running() {
		d.o.tb.Fatalf("%s does not run", d.name)
	}
	return d.proc.cmd.Process.Pid
}

func (d *Daemon) end(sig syscall.Signal) {
	d.o.tb.Helper()
	d.signal(sig)
	select {
	case <-d.proc.exited:
	case <-time.After(hangLimit):
		d.o.tb.Fatalf("%s does not end", d.name)
	}
	d.proc = nil
}

func (d *Daemon) signal(sig syscall.Signal) {
	d.o.tb.Helper()
	if !d.running() {
		d.o.tb.Fatalf("%s does not run", d.name)
	}
	if err := d.proc.cmd.Process.Signal(sig); err != nil {
		d.o.tb.Fatal(err)
	}
}

func (d *Daemon) running() bool {
	if d.proc == nil {
		return false
	}
	select {
	case <-d.proc.exited:
		return false
	default:
		return true
	}
}

// A process is a child that the kernel kills when the test binary dies, so that a test that panics or is killed leaves
// nothing running.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // why it exited; read it after exited
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &process{cmd: cmd, exited: make(chan struct{})}
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
	return p, <-started
}

// newNetns makes a network namespace that is held by a process, and so goes with it, devices and all.
func (o *OVS) newNetns() {
	o.tb.Helper()
	// cat says that it runs, by repeating a line, and ends with its input.
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	in, err := cmd.StdinPipe()
	if err != nil {
		o.tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		o.tb.Fatal(err)
	}
	holder, err := startProcess(cmd)
	if err != nil {
		o.tb.Fatalf("make a network namespace: %v", err)
	}
	o.tb.Cleanup(func() {
		in.Close()
		<-holder.exited
	})
	_, err = in.Write([]byte("up\n"))
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		o.tb.Fatalf("make a network namespace: %v", err)
	}
	o.netns = "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net"
	if _, err := os.Stat(o.netns); err != nil {
		o.tb.Fatal(err)
	}
	o.run("nsenter", "--net="+o.netns, "ip", "link", "set", "lo", "up")
}

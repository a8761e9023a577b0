package httpapi_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/sonic-mux/terraform-provider-mux/internal/lack"
	"github.com/sonic-mux/terraform-provider-mux/internal/wait"
)

// startBrowser runs a headless Chromium until the test ends.
func startBrowser(t testing.TB) context.Context {
	t.Helper()
	path := lack.Program(t, "chromium", "the page is not tested")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), // it would look for hosts of its own
		chromedp.Flag("disable-component-update", true),
	)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root with one
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close the browser: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// A tab is one tab of the browser. It hears what the page asks for, and what it complains about.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests []string
	console  []string
	hearing  sync.WaitGroup
}

func openTab(browser context.Context, t testing.TB, width, height int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	p := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		p.hearing.Wait()
	})
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	p.hearing.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.console = append(p.console, string(m.Type)+": "+m.Text)
			p.mu.Unlock()
		}
	})
	p.hearing.Go(func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.requests = append(p.requests, r.Request.URL)
			p.mu.Unlock()
		}
	})
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(width, height))
	return p
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, wait.Limit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.fatal("%v", err)
	}
}

// fatal fails the test with a picture of the page.
func (p *tab) fatal(format string, args ...any) {
	p.t.Helper()
	p.t.Logf("the console said %q", p.said())
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		p.screenshot("failed")
	}
	p.t.Fatalf(format, args...)
}

func (p *tab) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.console
}

// until waits for a JavaScript expression to be true.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(wait.Limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")")); err == nil && is {
			return
		}
	}
	p.fatal("not within %v: %s\nthe page says: %s", wait.Limit, what, p.eval("document.body.innerText.slice(0, 600)"))
}

func (p *tab) eval(expression string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// check compares what a JavaScript expression is.
func (p *tab) check(what, expression, want string) {
	p.t.Helper()
	if got := p.eval(expression); got != want {
		p.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(selector+" is there", "document.querySelector("+quote(selector)+")?.checkVisibility()")
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

func quote(text string) string { return "'" + text + "'" }

// dark shows the page as a person sees it who wants it so.
func (p *tab) dark() {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// screenshot takes a picture of the page. It is kept in the folder that SCREENSHOTS names, for the documentation.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil || len(png) == 0 {
		p.t.Fatalf("screenshot: %d bytes, %v", len(png), err)
	}
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// checkQuiet wants no complaint of the page, and no request that left the agent.
func (p *tab) checkQuiet(agent string) {
	p.t.Helper()
	for _, text := range p.said() {
		p.t.Errorf("the console said %q", text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) == 0 {
		p.t.Error("no request was heard")
	}
	home, err := url.Parse(agent)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, r := range p.requests {
		if u, err := url.Parse(r); err != nil || u.Host != home.Host {
			p.t.Errorf("the page asked for %s", r)
		}
	}
}

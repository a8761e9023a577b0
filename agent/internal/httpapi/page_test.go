package httpapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// Nothing of the page is inline, nothing comes from elsewhere, and a browser keeps what it has.
func TestPageFiles(t *testing.T) {
	a := agenttest.Start(t, agenttest.Ports(1))
	page := call(t, "GET", a.URL+"/", "")
	if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("GET /: %d %s", page.status, page.header.Get("Content-Type"))
	}
	policy := page.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	assets := regexp.MustCompile(`(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(page.body, -1)
	if len(assets) < 3 {
		t.Fatalf("the page names %d files", len(assets))
	}
	for _, asset := range assets {
		got := call(t, "GET", a.URL+"/"+asset[1], "")
		etag := got.header.Get("ETag")
		if got.status != 200 || etag == "" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: %d, ETag %q", asset[1], got.status, etag)
		}
		if again := call(t, "GET", a.URL+"/"+asset[1], "", "If-None-Match: "+etag); again.status != 304 || again.body != "" {
			t.Errorf("GET %s again: %d with %d bytes", asset[1], again.status, len(again.body))
		}
	}
	for path, want := range map[string]int{"/assets/none.js": 404, "/assets/": 404, "/assets/..%2findex.html": 404, "/index.html": 404} {
		if got := call(t, "GET", a.URL+path, ""); got.status != want {
			t.Errorf("GET %s: %d, want %d", path, got.status, want)
		}
	}
	if got := call(t, "POST", a.URL+"/", "{}"); got.status != 405 {
		t.Errorf("POST /: %d", got.status)
	}
}

const (
	live  = `document.querySelector("#live").dataset.state === "live"`
	tiles = `document.querySelectorAll("#grid li:not([hidden])").length`
)

// tile is the tile of a port, as JavaScript.
func tile(port int) string {
	return fmt.Sprintf(`document.querySelector('.tile[data-port="%d"]')`, port)
}

// shows is true when a port's tile shows a side.
func shows(port int, class string) string {
	return fmt.Sprintf(`%s.classList.contains("%s")`, tile(port), class)
}

// The page in a real browser, on the real agent.
func TestPage(t *testing.T) {
	browser := startBrowser(t)
	open := func(t *testing.T, url string) *tab {
		t.Helper()
		p := openTab(browser, t, 1280, 860)
		p.do(chromedp.Navigate(url))
		p.until("the page is live", live)
		return p
	}

	t.Run("120 ports, live", func(t *testing.T) {
		a := agenttest.Start(t, agenttest.Ports(120))
		p := open(t, a.URL)
		p.until("all ports are shown", tiles+" === 120")
		p.check("upper ports counted", `document.querySelector("#filter-upper .num").textContent`, "120")

		// Somebody else's toggle comes by itself.
		call(t, "POST", a.URL+"/mux/vms17-8/7", `{"active_side":"toggle"}`)
		p.until("port 7 is on lower", shows(7, "low"))
		p.until("it was changed a moment ago", shows(7, "fresh"))
		p.until("its flap is counted", tile(7)+`.querySelector(".flaps").textContent === "1×"`)
		call(t, "POST", a.URL+"/mux/vms17-8/12/drop", `{"out_sides":["nic"]}`)
		p.until("port 12 drops", shows(12, "drop"))
		p.check("port 12 says so to a screen reader", tile(12)+`.textContent.startsWith("Port 12 upper ToR active  drops NIC")`, "true")

		// A bridge that is not a mux, one that goes, and all at once.
		a.AddBridge(300, "muxy-vms17-8-300")
		p.until("the bridge is listed with its reason", `document.querySelector("#rejected").checkVisibility() && document.querySelector("#rejected").innerText.includes("it has 1 ports")`)
		a.RemoveBridge(119)
		p.until("port 119 is gone", tiles+" === 119")
		for range 3 {
			call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"random"}`)
		}
		call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"lower_tor"}`)
		p.until("all are on lower", `document.querySelectorAll(".tile.low").length === 119`)

		// Search and filters.
		p.do(chromedp.SendKeys(chromedp.CSS("#search"), "vms17-8-11"))
		p.until("11, 110 to 118 are found", tiles+" === 10")
		p.do(chromedp.SendKeys(chromedp.CSS("#search"), strings.Repeat(kb.Backspace, len("vms17-8-11"))))
		p.until("all are shown again", tiles+" === 119")
		p.click("#filter-unhealthy")
		p.until("one is unhealthy", tiles+" === 1")
		p.click("#filter-upper")
		p.until("none is on upper", tiles+` === 0 && document.querySelector("#none").innerText.includes("No port fits")`)
		p.click("#filter-all")
		p.until("all are shown", tiles+" === 119")
		p.until("the chart counts", `document.querySelector("#chart").innerText.includes("toggles")`)
		p.checkQuiet(a.URL)
	})

	t.Run("a port's details", func(t *testing.T) {
		a := agenttest.Start(t, agenttest.Ports(12))
		p := open(t, a.URL+"/#vms17-8/5")
		p.until("the address opens it", `document.querySelector("#details").open && document.querySelector("#details h2").textContent === "Port 5"`)
		p.click("#details .go")
		p.until("the click shows", shows(5, "low"))
		if got := strings.Join(a.Inject(5, "enp59s0f1.3233"), ","); got != "muxy-vms17-8-5" {
			t.Errorf("a packet of the lower ToR comes out at %q", got)
		}
		p.until("the history names who did it", `document.querySelector("#details tbody").innerText.includes("127.0.0.1")`)
		p.click(`#details [role="switch"]:nth-of-type(2)`)
		p.until("packets to the upper ToR are dropped", `document.querySelector("#details .drawing .cross") && `+shows(5, "drop"))
		if got := strings.Join(a.Inject(5, "muxy-vms17-8-5"), ","); got != "enp59s0f1.3233" {
			t.Errorf("a packet of the NIC comes out at %q", got)
		}
		p.until("the drawing says so", `document.querySelector(".drawing").getAttribute("aria-label").includes("to the upper ToR: dropped, to the lower ToR: passes")`)

		// The switch refuses: its words are seen, and nothing is shown that is not so.
		a.FailNext(5, "OFPFMFC_TABLE_FULL")
		p.click("#details .seg.up")
		p.until("the error is seen", `document.querySelector("#details .error").checkVisibility() && document.querySelector("#details .error").innerText.includes("OFPFMFC_TABLE_FULL")`)
		p.check("the side", shows(5, "low"), "true")
		p.checkHistory()

		p.do(chromedp.KeyEvent(kb.Escape))
		p.until("Escape closes it", `!document.querySelector("#details").open`)
		p.until("the focus is back on its tile", `document.activeElement.dataset.port === "5"`)
		p.do(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.Enter))
		p.until("the keyboard opens the next", `document.querySelector("#details").open && document.querySelector("#details h2").textContent === "Port 6"`)
	})

	t.Run("all ports", func(t *testing.T) {
		a := agenttest.Start(t, agenttest.Ports(12))
		p := open(t, a.URL)
		a.FailNext(3, "OFPFMFC_EPERM")
		p.click("#all")
		p.click("#all-menu button:nth-of-type(3)")
		p.until("it asks first", `document.querySelector("#ask").open && document.querySelector("#ask h2").textContent === "Set to lower: all 12 ports of vms17-8?"`)
		p.check("ports on lower so far", `document.querySelectorAll(".tile.low").length`, "0")
		p.click("#ask .go")
		p.until("the failure is named", `document.querySelector("#ask .failures").innerText.startsWith("Port 3 ") && document.querySelector("#ask .failures").innerText.includes("OFPFMFC_EPERM")`)
		p.screenshot("page-failures")
		p.until("the others are done", `document.querySelectorAll(".tile.low").length === 11`)
		p.click("#ask .acts.end button")
		p.click("#all")
		p.click("#all-menu button:nth-of-type(1)")
		p.click("#ask .acts.end button")
		p.until("it is cancelled", `!document.querySelector("#ask").open`)
		p.check("ports on lower", `document.querySelectorAll(".tile.low").length`, "11")
	})

	t.Run("the agent restarts", func(t *testing.T) {
		a := agenttest.Start(t, agenttest.Ports(12))
		p := open(t, a.URL)
		a.Stop()
		p.until("the page says that it is stale", `document.querySelector("#stale").checkVisibility() && document.querySelector("#live").dataset.state === "stale"`)
		p.check("the ports still shown", tiles, "12")
		a.Resume()
		call(t, "POST", a.URL+"/mux/vms17-8/4", `{"active_side":"lower_tor"}`)
		p.until("it is live again", live+` && !document.querySelector("#stale").checkVisibility()`)
		p.until("and knows what happened meanwhile", shows(4, "low"))
		a.Flip(4)
		p.until("and follows", shows(4, "up"))
	})

	t.Run("with a token", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte("wise-words-of-sixteen\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := agenttest.Start(t, agenttest.Ports(3), agenttest.Config(func(c *agent.Config) {
			c.ListenAuth, c.TokenFile = "127.0.0.1:0", file
		}))
		p := openTab(browser, t, 1280, 860)
		p.do(chromedp.Navigate("http://" + a.Auth))
		p.until("it asks for the token", `document.querySelector("#ask").open && document.querySelector("#token")`)
		p.do(chromedp.SendKeys(chromedp.CSS("#token"), "guess"+kb.Enter))
		p.until("a wrong one is asked for again", `document.querySelector("#ask").innerText.includes("not taken")`)
		p.do(chromedp.SendKeys(chromedp.CSS("#token"), "wise-words-of-sixteen"+kb.Enter))
		p.until("the right one lets in", live+" && "+tiles+" === 3")
		a.Flip(1)
		p.until("and the stream lives", shows(1, "low"))
		p.do(chromedp.Reload())
		p.until("the tab keeps it", live+" && "+tiles+" === 3")
		p.check("and nothing else does", "Object.keys(localStorage).length + document.cookie.length", "0")
	})

	t.Run("pictures", func(t *testing.T) {
		a := agenttest.Start(t, agenttest.Ports(120))
		for _, port := range []int{3, 4, 5, 18, 19, 40, 41, 42, 64, 77, 90, 91, 92, 93, 111} {
			a.Flip(port)
		}
		for range 4 {
			call(t, "POST", a.URL+"/mux/vms17-8", `{"active_side":"random"}`)
		}
		call(t, "POST", a.URL+"/mux/vms17-8/21/drop", `{"out_sides":["nic"]}`)
		call(t, "POST", a.URL+"/mux/vms17-8/64/drop", `{"out_sides":["upper_tor","lower_tor"]}`)
		a.AddBridge(120, "muxy-vms17-8-120", "enp59s0f1.3456")
		a.AddForeignFlow(57)
		p := open(t, a.URL)
		p.until("port 57 is unhealthy", shows(57, "bad"))
		p.until("the chart is drawn", `document.querySelector("#chart .point")`)
		p.screenshot("page")
		p.dark()
		p.click(`.tile[data-port="64"]`)
		p.until("the details are drawn", `document.querySelectorAll("#details tbody tr").length >= 3`)
		p.screenshot("page-port-dark")

		many := agenttest.Start(t, agenttest.Ports(1000))
		for port := 0; port < 1000; port += 7 {
			many.Flip(port)
		}
		call(t, "POST", many.URL+"/mux/vms17-8/500/drop", `{"out_sides":["nic"]}`)
		wide := open(t, many.URL)
		wide.until("all ports are shown", tiles+" === 1000")
		wide.screenshot("page-1000")

		phone := openTab(browser, t, 390, 844)
		phone.do(chromedp.Navigate(a.URL))
		phone.until("the page is live", live)
		phone.check("nothing hangs over a phone's edge", `document.documentElement.scrollWidth <= window.innerWidth`, "true")
		phone.screenshot("page-phone")
		phone.click(`.tile[data-port="5"]`)
		phone.until("the details are drawn", `document.querySelectorAll("#details tbody tr").length >= 2`)
		phone.check("nor do the details", `document.querySelector("#details").scrollWidth <= window.innerWidth`, "true")
	})
}

// checkHistory wants the newest event of the open port on top.
func (p *tab) checkHistory() {
	p.t.Helper()
	p.until("the history is in order, newest first",
		`((t) => t.length > 2 && t.every((x, i) => i === 0 || x <= t[i-1]))([...document.querySelectorAll("#details time")].map((x) => x.dateTime))`)
}

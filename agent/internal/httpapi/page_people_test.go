package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sonic-mux/terraform-provider-mux/agent"
	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

const (
	toggle  = "#details .go"
	postOf5 = "POST /mux/vms17-8/5"
	isOpen  = `document.querySelector("#details").open`
)

// text is what an element says, as JavaScript.
func text(selector string) string { return `document.querySelector("` + selector + `").innerText` }

// visible is true when an element is shown.
func visible(selector string) string {
	return `document.querySelector("` + selector + `")?.checkVisibility()`
}

// A page whose agent hangs says so, in the panel as well, with the time of the last byte, and offers nothing that changes.
func TestPageOfAnAgentThatHangs(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(12))
	b := newBetween(t, a.URL)
	p := openTab(browser, t, 390, 844)
	p.do(chromedp.Navigate(b.URL + "/#vms17-8/5"))
	p.until("the panel is open and live", live+" && "+isOpen)
	a.Flip(5)
	p.until("the panel shows the flip", `document.querySelector("#details .seg.low").ariaPressed === "true"`)
	b.hold(func(*http.Request) bool { return true })
	p.do(chromedp.Evaluate[chromedp.Void](`window.held = Date.now(); undefined`))
	p.until("the panel says that this is past", visible("#details .banner"))
	p.check("it says since when, which is not when it was noticed", `((t) => {
		const [h, m, s] = t.match(/(\d\d):(\d\d):(\d\d)/).slice(1).map(Number);
		const then = new Date(window.held);
		const apart = (h * 3600 + m * 60 + s) - (then.getHours() * 3600 + then.getMinutes() * 60 + then.getSeconds());
		return Math.abs(apart) <= 2 && Date.now() - window.held > 10_000;
	})(`+text("#details .banner")+`)`, "true")
	p.check("the page says it as well", text("#stale")+` === `+text("#details .banner"), "true")
	p.check("nothing can be changed", `[...document.querySelectorAll("#details .acts button, #all-menu button")].filter((b) => !b.matches(":disabled")).length`, "0")
	b.pass()
	p.until("it is live again", live+` && !`+visible("#details .banner")+` && !document.querySelector("`+toggle+`").matches(":disabled")`)
}

// A change that is not answered ends in words that say what may have happened. Meanwhile the port takes no second one.
func TestPageOfAChangeThatIsNotAnswered(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(12))
	b := newBetween(t, a.URL)
	p := openTab(browser, t, 1280, 860)
	p.do(chromedp.Navigate(b.URL + "/#vms17-8/5"))
	p.until("the panel is open and live", live+" && "+isOpen)

	x, y := p.place(toggle)
	p.do(chromedp.MouseClickXY(x, y), chromedp.MouseClickXY(x, y, chromedp.ClickCount(2)))
	p.until("a double click toggles", shows(5, "low"))
	p.click("#details .acts .group + button + button") // Reset, behind whatever the second click asked for
	p.until("all is answered", `!document.querySelector("#details [aria-busy]") && `+text("#details .health")+`.includes("lower")`)
	if n := b.count(postOf5); n != 1 {
		t.Errorf("a double click toggled %d times", n)
	}

	b.hold(func(r *http.Request) bool { return r.Method == "POST" })
	p.click(toggle)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("` + toggle + `").click(); document.querySelector(".seg.low").click(); undefined`))
	p.until("it says what may have happened", visible("#details .error")+` && `+text("#details .error")+`.includes("may still be made")`)
	p.check("the page is live all the same", live, "true")
	b.pass()
	p.click("#details .seg.low")
	p.until("the next one passes", `!document.querySelector("#details [aria-busy]") && `+visible("#details .error")+` === false`)
	if n := b.count(postOf5); n != 3 {
		t.Errorf("%d changes were sent, want the double click's, the one that was not answered and the last", n)
	}
}

// An agent that answers is not called silent.
func TestPageTellsErrorsApart(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(12))
	b := newBetween(t, a.URL)
	p := openTab(browser, t, 1280, 860)
	p.do(chromedp.Navigate(b.URL))
	p.until("the page is live", live)
	answer := func(status int, code, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Mux-Error-Code", code)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for _, tt := range []struct {
		what, want string
		answer     http.HandlerFunc
	}{
		{"503", "The agent is not ready: Open vSwitch can't be read.", answer(503, "not_ready", `{"err_msg":"Open vSwitch can't be read"}`)},
		{"404", "This agent does not serve vm_set vms17-8.", answer(404, "unknown_vm_set", `{"err_msg":"Unknown vm_set"}`)},
		{"a proxy's 502", "The agent answers with an error, 502: Bad Gateway.", answer(502, "", "<html>")},
		{"no answer", "The agent has not answered since ", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		b.say(tt.answer)
		p.until(tt.what+" is told", visible("#stale")+" && "+text("#stale")+`.startsWith(`+quoted(tt.want)+`)`)
		p.check("the ports are still shown, as past", tiles+` + document.querySelector("#live").dataset.state`, "12stale")
		b.pass()
		p.until("the page is live again", live+" && !"+visible("#stale"))
	}
}

// Every address leads somewhere, and says what is wrong with it.
func TestPageAddresses(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(12))
	p := openTab(browser, t, 1280, 860)
	for hash, want := range map[string]string{
		"nope/3":       "This agent does not serve a vm_set nope. It serves vms17-8.",
		"vms17-8/abc":  "abc is not the number of a port.",
		"vms17-8/-1":   "-1 is not the number of a port.",
		"%E0%A4%A":     "The address of this page has a part after # that can't be read.",
		"vms17-8":      "",
		"vms17-8/11":   "",
		"vms17-8/11/x": "",
	} {
		p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(a.URL+"/#"+hash))
		p.until(hash+": the ports are shown", live+" && "+tiles+" === 12")
		p.check(hash+": what it says", visible("#nowhere")+` ? `+text("#nowhere")+` : ""`, want)
		p.check(hash+": the panel is open", isOpen, fmt.Sprint(strings.HasPrefix(hash, "vms17-8/") && want == ""))
	}

	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(a.URL+"/#vms17-8/999"))
	p.until("a port that is not there is told", live+" && "+isOpen+" && "+text("#details .health")+` === "vm_set vms17-8 has no port 999."`)
	p.check("nothing is drawn, and nothing can be done", `document.querySelectorAll("#details .drawing, #details .acts button:not(:disabled)").length`, "0")

	p.do(chromedp.Navigate(a.URL + "/#vms17-8"))
	p.until("the panel is closed", live+" && !"+isOpen)
	p.click(`.tile[data-port="3"]`)
	p.until("a click opens it", isOpen+` && location.hash === "#vms17-8/3"`)
	p.do(chromedp.Evaluate[chromedp.Void](`history.back(); undefined`))
	p.until("Back closes it", "!"+isOpen+` && location.hash === "#vms17-8"`)
	p.do(chromedp.Evaluate[chromedp.Void](`history.forward(); undefined`))
	p.until("and Forward opens it", isOpen)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until("Escape closes it", "!"+isOpen+` && location.hash === "#vms17-8"`)
}

// What is drawn follows the codes of the conditions.
func TestPageDrawsWhatTheCodesSay(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(3))
	a.AddForeignFlow(1)
	p := openTab(browser, t, 1280, 860)
	p.do(chromedp.Navigate(a.URL + "/#vms17-8/1"))
	p.until("beside a foreign flow nothing is promised", live+` && document.querySelector("#details .drawing")?.getAttribute("aria-label").startsWith("Downstream, it is not known whether packets")`)
	p.do(chromedp.Evaluate[chromedp.Void](`import("/assets/drawing.js").then((m) => (window.drawing = m)); undefined`))
	p.until("the module is there", "window.drawing")
	for _, tt := range []struct{ port, down, upper, lower, standby string }{
		{`codes: [], dropped: []`, "passes", "passes", "passes", "stopped"},
		{`codes: ["port_down", "controller"], dropped: []`, "passes", "passes", "passes", "stopped"},
		{`codes: [], dropped: ["nic", "lower_tor"]`, "dropped", "passes", "dropped", "stopped"},
		{`codes: ["port_missing"], dropped: []`, "broken", "unsure", "unsure", "stopped"},
		{`codes: ["port_blocked"], dropped: ["nic"]`, "dropped", "unsure", "unsure", "stopped"},
		{`codes: ["standby_missing"], dropped: []`, "passes", "passes", "broken", "stopped"},
		{`codes: ["standby_blocked"], dropped: []`, "passes", "passes", "broken", "stopped"},
		{`codes: ["both_forward"], dropped: []`, "passes", "passes", "passes", "passes"},
		{`codes: ["restoring"], dropped: []`, "broken", "broken", "broken", "stopped"},
		{`codes: ["unreadable"], dropped: []`, "unsure", "unsure", "unsure", "stopped"},
		{`codes: ["flows_missing"], dropped: []`, "unsure", "unsure", "unsure", "stopped"},
		{`codes: ["fault"], dropped: []`, "unsure", "unsure", "unsure", "stopped"},
	} {
		p.check(tt.port, `((w) => [w.down, w.upper_tor, w.lower_tor, w.standby].join())(window.drawing.lanes({side: "upper_tor", `+tt.port+`}))`,
			tt.down+","+tt.upper+","+tt.lower+","+tt.standby)
	}
}

// The search has the command line's grammar, and finds more: both read the same cases.
func TestPageSearch(t *testing.T) {
	content, err := os.ReadFile(filepath.FromSlash("../../../internal/api/testdata/queries.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases struct {
		VMSet string `json:"vm_set"`
		Muxes []struct {
			Index   int      `json:"port_index"`
			Side    string   `json:"active_side"`
			Healthy bool     `json:"healthy"`
			Dropped []string `json:"dropped"`
			Reason  string   `json:"reason"`
			NIC     string   `json:"nic"`
			Upper   string   `json:"upper_tor"`
			Lower   string   `json:"lower_tor"`
		} `json:"muxes"`
		Cases []struct {
			Query string `json:"query"`
			Ports []int  `json:"ports"`
			Found []int  `json:"found"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	ports := make([]map[string]any, 0, len(cases.Muxes))
	for _, m := range cases.Muxes {
		ports = append(ports, map[string]any{
			"index": m.Index, "bridge": fmt.Sprintf("mbr-%s-%d", cases.VMSet, m.Index), "side": m.Side, "healthy": m.Healthy, "dropped": m.Dropped,
			"reason": m.Reason, "ports": map[string]string{"nic": m.NIC, "upper_tor": m.Upper, "lower_tor": m.Lower},
		})
	}
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(120))
	p := openTab(browser, t, 1280, 860)
	p.do(chromedp.Navigate(a.URL))
	p.until("the page is live", live)
	p.do(chromedp.Evaluate[chromedp.Void](`import("/assets/query.js").then((m) => (window.query = m)); undefined`))
	p.until("the module is there", "window.query")
	if len(cases.Cases) < 30 {
		t.Errorf("%d cases", len(cases.Cases))
	}
	for _, tt := range cases.Cases {
		want := tt.Found
		if want == nil {
			want = tt.Ports
		}
		p.check("search for "+tt.Query, `JSON.stringify(window.query.search(`+quoted(tt.Query)+`, `+quoted(ports)+`).map((p) => p.index))`, quoted(want))
	}

	// And through the field itself.
	first := `[...document.querySelectorAll("#grid li:not([hidden]) .tile")].map((t) => t.dataset.port).join()`
	a.Flip(7)
	p.until("port 7 is on lower", shows(7, "low"))
	for query, want := range map[string]string{"0-3": "0,1,2,3", "lower": "7", "0-11,20 upper": "0,1,2,3,4,5,6,8,9,10,11,20"} {
		p.do(chromedp.SendKeys(chromedp.CSS("#search"), query))
		p.until(query+" finds "+want, first+" === "+quoted(want))
		p.do(chromedp.Evaluate[chromedp.Void](`((s) => { s.value = ""; s.dispatchEvent(new Event("input")); })(document.querySelector("#search"))`))
	}
	p.do(chromedp.SendKeys(chromedp.CSS("#search"), "16"))
	p.until("port 16 stands before those with a name that ends in 16", first+`.startsWith("16,") || `+first+` === "16"`)
}

// Ports that are picked are changed together, and the last act can be undone where nothing else happened since.
func TestPageSelection(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(12))
	b := newBetween(t, a.URL)
	p := openTab(browser, t, 1280, 860)
	p.do(chromedp.Navigate(b.URL))
	p.until("the page is live", live)
	low := `[...document.querySelectorAll(".tile.low")].map((t) => t.dataset.port).join()`
	pick := func(port int, with chromedp.Modifier) {
		t.Helper()
		x, y := p.place(fmt.Sprintf(`.tile[data-port="%d"]`, port))
		p.do(chromedp.MouseClickXY(x, y, chromedp.ButtonModifiers(with)))
	}
	pick(2, kb.ModifierCtrl)
	pick(4, kb.ModifierCtrl)
	pick(6, kb.ModifierShift)
	p.until("four are picked", text("#picks .picked")+` === "4 ports picked: 2,4-6."`)
	p.check("no panel opened", isOpen, "false")
	p.click("#picks fieldset button:nth-of-type(3)") // set to lower
	p.until("these four are on lower", low+` === "2,4,5,6"`)
	if patches, posts := b.count("PATCH /mux/vms17-8"), b.count("POST /mux/vms17-8"); patches != 1 || posts != 0 {
		t.Errorf("%d PATCH and %d POST, want one PATCH", patches, posts)
	}

	call(t, "POST", a.URL+"/mux/vms17-8/5/drop", `{"out_sides":["nic"]}`)
	p.until("port 5 drops by now", shows(5, "drop"))
	p.until("the act can be undone", visible("#picks .undo")+" && "+text("#picks .undo")+` === "Undo: 4 ports set to lower"`)
	p.click("#picks .undo")
	p.until("it is, but for port 5", low+` === "5" && `+text("#picks .picked")+`.includes("Undone: 3 ports, 2,4,6. Port 5 changed again since then, and stay")`)
	p.check("port 5 drops still", shows(5, "drop"), "true")
	p.check("an act is undone once", visible("#picks .undo"), "false")

	// With the keyboard, and all that a search shows.
	p.click("#picks > button:last-of-type")
	p.until("nothing is picked", "!"+visible("#picks"))
	p.do(chromedp.Focus(chromedp.CSS(`.tile[data-port="0"]`)), chromedp.KeyEvent("x"), chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(kb.ModifierShift)))
	p.until("two are picked", text("#picks .picked")+`.startsWith("2 ports picked: 0-1.")`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until("Escape lets them go", "!"+visible("#picks"))
	p.do(chromedp.SendKeys(chromedp.CSS("#search"), "8-10"))
	p.until("three are shown", tiles+" === 3")
	p.click("#pick")
	p.click("#pick-shown")
	p.click("#picks fieldset button:nth-of-type(4)") // drop
	p.until("it asks which packets", `document.querySelector("#ask").open`)
	p.click("#end-nic")
	p.click("#ask .go")
	p.until("the three drop", shows(8, "drop")+" && "+shows(9, "drop")+" && "+shows(10, "drop")+" && !"+shows(7, "drop"))
	p.click("#picks .undo")
	p.until("and pass again", "!"+shows(8, "drop")+" && !"+shows(9, "drop")+" && !"+shows(10, "drop"))

	// All ports, by their menu: undone as well.
	p.click("#all")
	p.click("#all-menu button:nth-of-type(3)")
	p.click("#ask .go")
	p.until("all are on lower", `document.querySelectorAll(".tile.low").length === 12`)
	p.click("#picks .undo")
	p.until("and back where they were", low+` === "5"`)
}

// What fits no rule of its own: names, sizes, tokens.
func TestPageForEveryone(t *testing.T) {
	browser := startBrowser(t)
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("wise-words-of-sixteen\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, agenttest.Ports(40), agenttest.Config(func(c *agent.Config) {
		c.ListenAuth, c.TokenFile = "127.0.0.1:0", file
	}))
	call(t, "POST", a.URL+"/mux/vms17-8/3/drop", `{"out_sides":["nic"]}`)
	p := openTab(browser, t, 3840, 2160)
	p.do(chromedp.Navigate("http://" + a.Auth))
	p.until("it asks for the token", `document.querySelector("#ask").open && document.querySelector("#token")`)
	p.click("#keep-token")
	p.do(chromedp.SendKeys(chromedp.CSS("#token"), "wise-words-of-sixteen"+kb.Enter))
	p.until("the page is live", live+" && "+shows(3, "drop"))
	p.check("the grid is as wide as the screen", `document.querySelector("#grid").clientWidth > 3700`, "true")
	p.check("a name holds what is visible", `[...document.querySelectorAll("[aria-label]")].filter((e) => e.matches("button, a, input") && /\w/.test(e.innerText) && !e.ariaLabel.includes(e.innerText.trim())).length`, "0")
	p.check("a tile's name holds its side too where that has no room", tile(3)+`.textContent.startsWith("Port 3 upper ToR active  drops NIC ")`, "true")
	size := `parseFloat(getComputedStyle(` + tile(0) + `.querySelector(".n")).fontSize)`
	before := p.eval(size)
	p.do(chromedp.Evaluate[chromedp.Void](`document.documentElement.style.fontSize = "32px"; undefined`))
	p.check("who sets letters twice as large in the browser sees them twice as large", size+" / "+before, "2")

	other := openTab(browser, t, 1280, 860)
	other.do(chromedp.Navigate("http://" + a.Auth))
	other.until("a token that is kept serves other tabs", live)
	other.click("#forget")
	other.until("a token that is forgotten is asked for", `document.querySelector("#ask").open && document.querySelector("#token")`)
	other.check("and is nowhere", "localStorage.length + sessionStorage.length", "0")
}

// place is the middle of an element, in pixels of the page.
func (p *tab) place(selector string) (x, y float64) {
	p.t.Helper()
	p.until(selector+" is there", visible(strings.ReplaceAll(selector, `"`, `\"`)))
	where := p.eval(`((r) => [r.x + r.width / 2, r.y + r.height / 2].join(" "))(document.querySelector('` + selector + `').getBoundingClientRect())`)
	if _, err := fmt.Sscan(where, &x, &y); err != nil {
		p.t.Fatalf("%s is at %q: %v", selector, where, err)
	}
	return x, y
}

// quoted writes a value as JavaScript.
func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// What a page keeps and draws of a night of tests does not grow with it: a week of 30 toggles a second, by a clock of its own.
func TestPageOfAWeek(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(3))
	p := openTab(browser, t, 1280, 860)
	p.do(chromedp.Navigate(a.URL))
	p.until("the page is live", live)
	p.do(chromedp.Evaluate[chromedp.Void](`Promise.all([import("/assets/model.js"), import("/assets/chart.js")]).then(([m, c]) => {
		const began = Date.now();
		const model = new m.Model("vms17-8", { changed() {}, state() {} });
		const ev = { port_index: 0, from: { active_side: "upper_tor" }, to: { active_side: "lower_tor" } };
		const week = 7 * 86400 * 30;
		for (let i = 0; i < week; i++) {
			Date.now = () => began + i * 1000 / 30;
			model.remember([{ ...ev, time: new Date(Date.now()).toISOString(), took_us: 100 + i % 900 }]);
		}
		const root = document.createElement("figure");
		c.drawChart(root, model);
		window.week = { bins: model.bins.bins.size, kept: JSON.stringify(model, (k, v) => v instanceof Map ? [...v] : k === "end" ? 0 : v).length,
			points: root.querySelectorAll("circle").length, words: root.querySelector("figcaption").textContent };
	}); undefined`))
	p.until("the week is over", "window.week")
	p.check("bins", "window.week.bins <= 60", "true")
	p.check("characters that are kept", "window.week.kept < 100_000", "true")
	p.check("points drawn", "window.week.points <= 60 && window.week.points >= 59", "true")
	p.check("the last hour is counted", `((n) => n > 106_000 && n <= 108_000)(Number(/(\d+) toggles/.exec(window.week.words)[1]))`, "true")
	p.check("longest and median", `((m) => Math.abs(m[1] - 550) < 30 && m[2] === "999")(/median (\d+) µs, longest (\d+) µs/.exec(window.week.words))`, "true")
}

// While ports change a page reads what events don't tell, and not all ports each time.
func TestPageReadsLittle(t *testing.T) {
	browser := startBrowser(t)
	a := agenttest.Start(t, agenttest.Ports(120))
	b := newBetween(t, a.URL)
	p := openTab(browser, t, 1280, 860)
	p.do(chromedp.Navigate(b.URL))
	p.until("the page is live", live)
	before := b.count("GET /mux/vms17-8")
	for flaps := range 4 {
		a.Flip(7)
		p.until("the flap is counted", tile(7)+fmt.Sprintf(`.querySelector(".flaps").textContent === "%d×"`, flaps+1))
	}
	if n := b.count("GET /mux/vms17-8") - before; n > 1 {
		t.Errorf("all ports were read %d times for 4 flips", n)
	}
	if n := b.count("GET /mux/vms17-8/flap_counter"); n == 0 || n > 8 {
		t.Errorf("the counters were read %d times", n)
	}
	a.AddForeignFlow(9)
	p.until("port 9 is unhealthy", shows(9, "bad"))
	call(t, "POST", a.URL+"/mux/vms17-8/9/reset", "")
	p.until("and healthy again", "!"+shows(9, "bad"))
}

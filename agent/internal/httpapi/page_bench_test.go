package httpapi_test

import (
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/sonic-mux/terraform-provider-mux/agent/agenttest"
)

// BenchmarkPage opens the page with 1,000 ports, and toggles all of them while it is open. It reports when the browser first
// painted, when all ports were there, and the longest time for which the page did not react, loading and toggling.
func BenchmarkPage(b *testing.B) {
	browser := startBrowser(b)
	a := agenttest.Start(b, agenttest.Ports(1000))
	for b.Loop() {
		p := openTab(browser, b, 1280, 860)
		_, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
			window.longest = 0;
			new PerformanceObserver((list) => list.getEntries().forEach((e) => (window.longest = Math.max(window.longest, e.duration)))).observe({ type: "longtask", buffered: true });
			const grid = setInterval(() => {
				if (document.querySelectorAll(".tile").length < 1000) return;
				window.complete = performance.now();
				clearInterval(grid);
			}, 5);`})
		if err != nil {
			b.Fatal(err)
		}
		p.do(chromedp.Navigate(a.URL))
		p.until("all ports are there", "window.complete && "+live)
		report := func(unit, expression string) {
			v, err := strconv.ParseFloat(p.eval(expression), 64)
			if err != nil {
				b.Fatalf("%s: %v", unit, err)
			}
			b.ReportMetric(v, unit)
		}
		report("ms-to-first-paint", `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
		report("ms-to-all-ports", "window.complete")
		report("ms-longest-task-loading", "window.longest")
		p.eval("window.longest = 0")
		before := p.eval(`document.querySelectorAll(".tile.low").length`)
		a.FlipAll()
		p.until("all are toggled", `String(1000 - document.querySelectorAll(".tile.low").length) === "`+before+`"`)
		report("ms-longest-task-toggling", "window.longest")
	}
}

// BenchmarkPageAfterAWeek draws the chart of a page that was open for a week of 30 toggles a second, by a clock of its own, and that
// of one that was open for a minute. It reports how long a drawing takes, and how many times as long after the week; each change
// that the page hears is part of what a week takes.
func BenchmarkPageAfterAWeek(b *testing.B) {
	browser := startBrowser(b)
	a := agenttest.Start(b, agenttest.Ports(3))
	for b.Loop() {
		p := openTab(browser, b, 1280, 860)
		p.do(chromedp.Navigate(a.URL))
		p.until("the page is live", live)
		p.do(chromedp.Evaluate[chromedp.Void](`Promise.all([import("/assets/model.js"), import("/assets/chart.js")]).then(([m, c]) => {
			const began = Date.now();
			const open = (changes) => {
				const model = new m.Model("vms17-8", { changed() {}, state() {} });
				for (let i = 0; i < changes; i++) {
					Date.now = () => began + i * 1000 / 30;
					model.remember([{ port_index: 0, from: { active_side: "upper_tor" }, to: { active_side: "lower_tor" },
						time: new Date(Date.now()).toISOString(), took_us: 100 + i % 900 }]);
				}
				const started = performance.now();
				for (let i = 0; i < 100; i++) c.drawChart(document.createElement("figure"), model);
				return (performance.now() - started) / 100;
			};
			open(60 * 30); // warm
			window.drawn = { minute: open(60 * 30), week: open(7 * 86400 * 30) };
		}); undefined`))
		p.until("both are drawn", "window.drawn")
		times := map[string]float64{}
		for _, name := range []string{"minute", "week"} {
			v, err := strconv.ParseFloat(p.eval("window.drawn."+name), 64)
			if err != nil {
				b.Fatal(err)
			}
			times[name] = v
			b.ReportMetric(v, "ms-to-draw-after-a-"+name)
		}
		b.ReportMetric(times["week"]/times["minute"], "times-a-minute's")
	}
}

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

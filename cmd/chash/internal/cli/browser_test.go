package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.Bool("screenshots", false, "write the screenshots of the README")

// TestBrowser_Report: the page of a plan in a real browser: no error in its console, no
// request, and nothing wider than the screen, at 1280 and 400 pixels, light and dark.
func TestBrowser_Report(t *testing.T) {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium")
	}
	report := filepath.Join(t.TempDir(), "report.html")
	var names strings.Builder
	for i := range 40 {
		fmt.Fprintf(&names, "web-%d\n", i+1)
	}
	args := "plan - -measure=false -add web-41,web-42,web-43 -rollout 1 -slack none,0.01,inf -replicas 160 -html " + report
	if *screenshots {
		args = "plan - -add web-41,web-42,web-43 -html " + report
	}
	var out, errs bytes.Buffer
	require.Zero(t, Main(context.Background(), strings.Fields(args), strings.NewReader(names.String()), &out, &errs), errs.String())
	checkPage(t, program, report)
}

func checkPage(t *testing.T, program, report string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()

	var mu sync.Mutex
	var complaints []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *cdpruntime.EventExceptionThrown:
			complaints = append(complaints, e.ExceptionDetails.Error())
		case *cdpruntime.EventConsoleAPICalled:
			complaints = append(complaints, string(e.Type))
		case *log.EventEntryAdded:
			complaints = append(complaints, e.Entry.Text)
		}
	})
	for _, wide := range []int64{1280, 400} {
		for _, scheme := range []string{"light", "dark"} {
			var full, inner, pictures, asked int
			var background string
			require.NoError(t, chromedp.Run(ctx,
				log.Enable(),
				emulation.SetDeviceMetricsOverride(wide, 900, 1, wide < 500),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
				chromedp.Navigate("file://"+report),
				chromedp.Evaluate("document.documentElement.scrollWidth", &full),
				chromedp.Evaluate("window.innerWidth", &inner),
				chromedp.Evaluate("[...document.querySelectorAll('.card svg')].filter(s => s.getBoundingClientRect().width > 300).length", &pictures),
				chromedp.Evaluate("performance.getEntriesByType('resource').length", &asked),
				chromedp.Evaluate("getComputedStyle(document.body).backgroundColor", &background),
			))
			require.Equal(t, int(wide), inner)
			require.LessOrEqual(t, full, inner, "the page is wider than the screen")
			require.GreaterOrEqual(t, pictures, 3)
			require.Zero(t, asked, "the page asks for something")
			want := map[string]string{"light": "rgb(246, 247, 249)", "dark": "rgb(15, 18, 20)"}
			require.Equal(t, want[scheme], background)
			if *screenshots && (wide == 400) == (scheme == "dark") {
				writeScreenshot(t, ctx, fmt.Sprintf("../../docs/report-%d-%s.png", wide, scheme), wide)
			}
		}
	}
	require.NoError(t, chromedp.Cancel(ctx)) // which waits for its end
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, complaints, "the browser's console")
}

// writeScreenshot writes what a reader sees first, small enough for a README.
func writeScreenshot(t *testing.T, ctx context.Context, path string, wide int64) {
	scale := min(1, 680/float64(wide))
	require.NoError(t, chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		shot, err := page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithClip(
			&page.Viewport{Width: float64(wide), Height: 1100, Scale: scale}).Do(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(path, shot, 0o644)
	})))
}

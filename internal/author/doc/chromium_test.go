package doc_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// browser is a headless Chromium that is driven over two pipes by the DevTools protocol: JSON messages, each ended by a
// NUL.
type browser struct {
	to   io.Writer
	wait sync.WaitGroup

	mutex     sync.Mutex
	next      int
	replies   map[int]chan message
	problems  []string    // errors of the console, and whatever the policy of the page blocked
	addresses []string    // what was requested
	loaded    chan string // the loader of each document that was loaded
}

type message struct {
	ID     int            `json:"id"`
	Method string         `json:"method"`
	Params map[string]any `json:"params"`
	Result map[string]any `json:"result"`
	Error  map[string]any `json:"error"`
}

// startBrowser starts Chromium, or skips the spec where there is none.
func startBrowser() *browser {
	GinkgoHelper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		kit.Missing(GinkgoT(), "there is no Chromium; run `scripts/install chromium`")
	}
	profile, err := os.MkdirTemp("", "chromium-")
	Expect(err).NotTo(HaveOccurred())
	// The helpers of the browser may write for a moment after it was killed.
	DeferCleanup(func() { Eventually(func() error { return os.RemoveAll(profile) }, "30s").Should(Succeed()) })
	commands, to, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	from, events, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	process := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	process.ExtraFiles = []*os.File{commands, events} // 3 and 4
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	Expect(process.Start()).To(Succeed())
	Expect(commands.Close()).To(Succeed())
	Expect(events.Close()).To(Succeed())
	b := &browser{to: to, replies: map[int]chan message{}, loaded: make(chan string, 1000)}
	b.wait.Go(func() { b.read(from) })
	DeferCleanup(func() {
		_ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL) // with its helpers
		_ = process.Wait()
		_ = to.Close()
		b.wait.Wait()
		_ = from.Close()
	})
	return b
}

// read takes messages until the browser ends.
func (b *browser) read(from io.Reader) {
	reader := bufio.NewReader(from)
	for {
		data, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(data[:len(data)-1], &m) != nil {
			continue
		}
		b.mutex.Lock()
		if reply, ok := b.replies[m.ID]; ok && m.Method == "" {
			reply <- m
		}
		b.note(m)
		b.mutex.Unlock()
	}
}

// note records the problems that an event reports, and the address of a request. It signals that a page was loaded.
func (b *browser) note(m message) {
	text := fmt.Sprint(m.Params)
	switch m.Method {
	case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Audits.issueAdded":
		b.problems = append(b.problems, m.Method+": "+text)
	case "Network.requestWillBeSent":
		request, _ := m.Params["request"].(map[string]any)
		b.addresses = append(b.addresses, fmt.Sprint(request["url"]))
	case "Page.lifecycleEvent":
		if m.Params["name"] == "load" {
			b.loaded <- fmt.Sprint(m.Params["loaderId"])
		}
	}
}

// call sends a command to a session, "" for the browser itself, and returns the result.
func (b *browser) call(session, method string, params map[string]any) map[string]any {
	GinkgoHelper()
	b.mutex.Lock()
	b.next++
	id, reply := b.next, make(chan message, 1)
	b.replies[id] = reply
	b.mutex.Unlock()
	command := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		command["sessionId"] = session
	}
	data, err := json.Marshal(command)
	Expect(err).NotTo(HaveOccurred())
	_, err = b.to.Write(append(data, 0))
	Expect(err).NotTo(HaveOccurred())
	var got message
	Eventually(reply, "30s").Should(Receive(&got), method)
	Expect(got.Error).To(BeEmpty(), method)
	return got.Result
}

// tab is a page in the browser, of a certain width in pixels.
type tab struct {
	*browser
	session string
}

// open loads a file in a new tab.
func (b *browser) open(file string, width int) tab {
	GinkgoHelper()
	target := b.call("", "Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	session := b.call("", "Target.attachToTarget",
		map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	t := tab{b, session}
	for _, domain := range []string{"Log", "Runtime", "Network", "Page", "Audits"} {
		b.call(session, domain+".enable", map[string]any{})
	}
	b.call(session, "Page.setLifecycleEventsEnabled", map[string]any{"enabled": true})
	b.call(session, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500,
	})
	loader := b.call(session, "Page.navigate", map[string]any{"url": "file://" + file})["loaderId"]
	Eventually(b.loaded, "30s").Should(Receive(Equal(loader)))
	return t
}

// number evaluates an expression in the page.
func (t tab) number(expression string) float64 {
	GinkgoHelper()
	result := t.call(t.session, "Runtime.evaluate", map[string]any{"expression": expression})["result"].(map[string]any)
	Expect(result["value"]).To(BeAssignableToTypeOf(float64(0)), "%s: %v", expression, result)
	return result["value"].(float64)
}

// prefer sets a feature of the user's system, such as prefers-color-scheme: dark.
func (t tab) prefer(feature, value string) {
	GinkgoHelper()
	t.call(t.session, "Emulation.setEmulatedMedia", map[string]any{
		"features": []any{map[string]any{"name": feature, "value": value}},
	})
}

// screenshot keeps a picture of the whole page below build/screenshots, for people to look at.
func (t tab) screenshot(name string) {
	GinkgoHelper()
	shot := t.call(t.session, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true})["data"].(string)
	data, err := base64.StdEncoding.DecodeString(shot)
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join("..", "..", "..", "build", "screenshots")
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)).To(Succeed())
}

// take returns the requests and messages since its last call.
func (b *browser) take() (problems, addresses []string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	problems, addresses = b.problems, b.addresses
	b.problems, b.addresses = nil, nil
	return problems, addresses
}

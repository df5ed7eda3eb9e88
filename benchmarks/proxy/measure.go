package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A result is what one turn of a proxy has shown.
type result struct {
	throughput float64       // requests per second
	cpu        time.Duration // of the proxy, per request
	p50, p99   time.Duration
}

// script has each request be of another client, of a thousand.
const script = `local n = 0
request = function()
	n = n + 1
	wrk.headers["` + header + `"] = "client-" .. (n % 1000)
	return wrk.format()
end
`

// turn loads the proxy for a while.
func (p *contender) turn(ctx context.Context, s setup, folder string) (result, error) {
	path := filepath.Join(folder, "clients.lua")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		return result{}, err
	}
	before, err := cpuTime(p.pid)
	if err != nil {
		return result{}, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-t1", fmt.Sprint("-c", s.connections), fmt.Sprint("-d", int(s.time.Seconds())),
		"--latency", "-s", path, p.url+"/").CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	after, err := cpuTime(p.pid)
	if err != nil {
		return result{}, err
	}
	r, requests, err := parse(string(out))
	if err != nil {
		return r, err
	}
	r.cpu = (after - before) / time.Duration(requests)
	return r, nil
}

// What wrk prints.
var (
	total   = regexp.MustCompile(`(\d+) requests in`)
	rate    = regexp.MustCompile(`Requests/sec: +([\d.]+)`)
	latency = regexp.MustCompile(`(?m)^ +(50|99)% +([\d.]+(?:us|ms|s|m))$`)
	trouble = regexp.MustCompile(`Non-2xx.*|Socket errors:.*`)
)

// parse reads what wrk prints. An answer that is no success makes it an error.
func parse(out string) (r result, requests int, err error) {
	if bad := trouble.FindString(out); bad != "" {
		return r, 0, errors.New(bad)
	}
	n, per, marks := total.FindStringSubmatch(out), rate.FindStringSubmatch(out), latency.FindAllStringSubmatch(out, -1)
	if n == nil || per == nil || len(marks) != 2 {
		return r, 0, fmt.Errorf("cannot read what wrk prints: %s", out)
	}
	requests, err1 := strconv.Atoi(n[1])
	var err2, err3, err4 error
	r.throughput, err2 = strconv.ParseFloat(per[1], 64)
	r.p50, err3 = time.ParseDuration(marks[0][2])
	r.p99, err4 = time.ParseDuration(marks[1][2])
	if requests == 0 {
		err = errors.New("no request was answered")
	}
	return r, requests, errors.Join(err, err1, err2, err3, err4)
}

// cpuTime returns the CPU time that a process has taken, with its children and theirs.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// After the name in brackets, which may have spaces, utime and stime are the 12th and
	// 13th, in ticks of 10 ms on every Linux that Go runs on.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("cannot read /proc/%d/stat", pid)
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	took := time.Duration(user+system) * 10 * time.Millisecond
	children, err3 := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	for child := range strings.FieldsSeq(string(children)) {
		number, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		more, err := cpuTime(number)
		if err != nil {
			return 0, err
		}
		took += more
	}
	return took, errors.Join(err1, err2, err3)
}

//go:build !unix

package chashhttp_test

import "testing"

// stop skips the test: a process cannot be stopped here.
func (p *process) stop(t testing.TB) { t.Skip("no signal stops a process on this system") }

func (p *process) cont() {} // what stop has skipped does not come here

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The picture in the repository is the one that the command draws.
func TestPicture(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures for some seconds")
	}
	want, err := picture(full.sets)
	require.NoError(t, err)
	got, err := os.ReadFile("../slack.svg")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "make it again: go run ./compare -picture slack.svg")
}

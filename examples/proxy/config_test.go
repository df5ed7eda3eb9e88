package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the transport would refuse is a wrong flag, and named as such.
func TestFlags_RetryBodyTooLong(t *testing.T) {
	_, err := parseFlags([]string{"-retry-body=2147483648"}, nil)
	require.ErrorIs(t, err, errUsage)
	require.ErrorContains(t, err, "-retry-body")
	_, err = parseFlags([]string{"-retry-body=2147483647"}, nil)
	require.NoError(t, err)
}

package chashgrpc_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"
)

func TestFile(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		path := filepath.Join(t.TempDir(), "endpoints.json")
		write := func(text string) {
			t.Helper()
			temporary := path + ".new"
			require.NoError(t, os.WriteFile(temporary, []byte(text), 0o600))
			require.NoError(t, os.Rename(temporary, path))
		}
		write(`{"server-1": {"weight": 3}}`)
		file, err := chashgrpc.OpenFile(path, time.Millisecond)
		require.NoError(t, err)
		defer file.Close()
		c := newServers(t, five[:3]...)
		c.wrap = file.Wrap
		c.connectTo(policy, `{}`, endpointsAt(five[:3]...))
		check(t, weighted(t, mapping, map[string]uint32{five[0]: 1, five[1]: 3, five[2]: 1}), c.callAll(keys(300)))

		write(`{"server-0": {"weight": "4"}, "elsewhere": {"weight": 9}}`)
		c.await(weighted(t, mapping, map[string]uint32{five[0]: 4, five[1]: 1, five[2]: 1}))

		write(`{"server-0": {"weight": 0}}`)
		eventually(t, "the file is refused", func() bool { return file.Err() != nil })
		require.ErrorIs(t, file.Err(), chashgrpc.ErrInvalidFile)
		c.await(weighted(t, mapping, map[string]uint32{five[0]: 4, five[1]: 1, five[2]: 1}))

		require.NoError(t, os.Remove(path))
		eventually(t, "the file is missed", func() bool { return os.IsNotExist(file.Err()) })
		write(`{}`)
		eventually(t, "the file is back", func() bool { return file.Err() == nil })
		c.await(mapping(five[:3]...))

		file.Close()
		file.Close()
		write(`{"server-2": {"weight": 2}}`)
		require.NoError(t, file.Reload())
		check(t, weighted(t, mapping, map[string]uint32{five[0]: 1, five[1]: 1, five[2]: 2}), c.callAll(keys(300)))
	})
}

func TestFile_Errors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.json")
	_, err := chashgrpc.OpenFile(path, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	for text, part := range map[string]string{
		``:                                  "",
		`[]`:                                "",
		`{"a": 1}`:                          `"a"`,
		`{"a": {"weight": 0}}`:              "weight",
		`{"a": {"weight": 4294967296}}`:     "weight",
		`{"a": {"weight": -1}}`:             "weight",
		`{"a": {"weight": 1.5}}`:            "weight",
		`{"a": {"hashKey": 1}}`:             "hashKey",
		`{"a": {"hash_key": "x"}}`:          "hash_key: unknown field; the fields are hashKey, weight",
		`{"a": {}, "a": {}}`:                "twice",
		`{"a": {"weight": 1, "weight": 2}}`: "twice",
		`{"a": {}} {}`:                      "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := chashgrpc.OpenFile(path, 0)
		require.ErrorIs(t, err, chashgrpc.ErrInvalidFile, text)
		require.ErrorContains(t, err, part, text)
		require.ErrorContains(t, err, path)
	}
}

// Of an endpoint's addresses the first in byte order counts, and what the file does not
// say stays.
func TestFile_Endpoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"a": {"hashKey": "A"}, "b": {"weight": 2, "hashKey": "B"}}`), 0o600))
	file, err := chashgrpc.OpenFile(path, 0)
	require.NoError(t, err)
	defer file.Close()
	given := []resolver.Endpoint{
		chashgrpc.SetWeight(endpointAt("b", "a"), 5), endpointAt("b", "c"), chashgrpc.SetHashKey(endpointAt("c"), "C"),
	}
	handle := new(chashgrpc.Handle)
	c := newServers(t)
	c.wrap = func(b resolver.Builder) resolver.Builder { return handle.Wrap(file.Wrap(b)) }
	c.connectTo(chashgrpc.MaglevName, `{}`, given)
	c.conn.Connect()
	eventually(t, "the handle has endpoints", func() bool { return len(handle.Endpoints()) == 3 })
	got := map[string]uint32{}
	for _, e := range handle.Endpoints() {
		got[e.HashKey] = e.Weight
	}
	require.Equal(t, map[string]uint32{"A": 5, "B": 2, "C": 1}, got)
}

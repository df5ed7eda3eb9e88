package chashcompat_test

import (
	"fmt"
	"log"
	"net/url"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// The upstream of nginx is:
//
//	upstream web {
//		hash $arg_user consistent;
//		server 10.0.0.1:80 weight=2;
//		server 10.0.0.2:80;
//	}
func ExampleNginx() {
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "10.0.0.1:80", Weight: 2, Value: "10.0.0.1:80"},
		{Name: "10.0.0.2:80", Value: "10.0.0.2:80"},
	}, chashcompat.Nginx("10.0.0.1:80", "10.0.0.2:80"))
	if err != nil {
		log.Fatal(err)
	}
	request, err := url.Parse("http://example.com/cart?user=J%C3%BCrgen")
	if err != nil {
		log.Fatal(err)
	}
	user, _ := chashcompat.RawParam(request.RawQuery, "user") // as nginx sees it
	server, err := ring.Get(user)
	fmt.Println(user, "to", server, err)
	// Output:
	// J%C3%BCrgen to 10.0.0.2:80 <nil>
}

// The backend of HAProxy is:
//
//	balance url_param user
//	hash-type consistent sdbm avalanche
//	server a 10.0.0.1:80 id 1 weight 10
//	server b 10.0.0.2:80 id 2 weight 20
func ExampleHAProxy() {
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "a", HashKey: "1", Weight: 10, Value: "10.0.0.1:80"},
		{Name: "b", HashKey: "2", Weight: 20, Value: "10.0.0.2:80"},
	}, chashcompat.HAProxy(chashcompat.HAProxySDBM, chashcompat.HAProxyAvalanche))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("user:42"))

	// HAProxy has found b to be down.
	if err := ring.SetState("b", chash.Draining); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("user:42"))
	// Output:
	// 10.0.0.2:80 <nil>
	// 10.0.0.1:80 <nil>
}

// The C program has:
//
//	memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_CONSISTENT);
//	memcached_server_add(pool, "cache-1", 11211);
//	memcached_server_add(pool, "cache-2", 11211);
func ExampleLibmemcached() {
	servers := []string{"cache-1:11211", "cache-2:11211"}
	ring, err := chash.NewRing(chash.Named(servers...), chashcompat.Libmemcached(chashcompat.LibmemcachedOneAtATime, servers...))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("user:42"))
	// Output:
	// cache-1:11211 <nil>
}

// The PHP program has:
//
//	$pool->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);
//	$pool->addServer('cache-1', 11211);
//	$pool->addServer('cache-2', 11211, 3);
func ExampleLibmemcachedWeighted() {
	servers := []string{"cache-1:11211", "cache-2:11211"}
	backends := chash.Named(servers...)
	backends[1].Weight = 3
	ring, err := chash.NewRing(backends, chashcompat.LibmemcachedWeighted(servers...))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("user:42"))
	// Output:
	// cache-2:11211 <nil>
}

// The C program has:
//
//	memcached_behavior_set_distribution(pool, MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA_SPY);
//	memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_HASH, MEMCACHED_HASH_MD5);
//	memcached_server_add(pool, "10.0.0.1", 11211);
//	memcached_server_add(pool, "10.0.0.2", 11211);
func ExampleSpymemcached() {
	servers := []string{"10.0.0.1:11211", "10.0.0.2:11211"}
	ring, err := chash.NewRing(chash.Named(servers...), chashcompat.Spymemcached(servers...))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("user:42"))
	// Output:
	// 10.0.0.1:11211 <nil>
}

// The pool of twemproxy is:
//
//	hash: fnv1a_64
//	hash_tag: "{}"
//	distribution: ketama
//	servers:
//	  - 10.0.0.1:11211:1 alpha
//	  - 10.0.0.2:11211:1 beta
func ExampleTwemproxy() {
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "alpha", Value: "10.0.0.1:11211"},
		{Name: "beta", Value: "10.0.0.2:11211"},
	}, chashcompat.Twemproxy(chashcompat.TwemproxyFNV1a64, "alpha", "beta"))
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"cart{user:42}", "profile{user:42}"} {
		server, err := ring.Get(chashcompat.TwemproxyKey(key, "{}"))
		fmt.Println(key, "to", server, err)
	}
	// Output:
	// cart{user:42} to 10.0.0.1:11211 <nil>
	// profile{user:42} to 10.0.0.1:11211 <nil>
}

// The cluster of Envoy has:
//
//	lb_policy: RING_HASH
func ExampleEnvoyRingHash() {
	endpoints := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}
	ring, err := chash.NewRing(chash.Named(endpoints...), chashcompat.EnvoyRingHash(chashcompat.RingSize{}, endpoints...))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("user:42")) // the value of the header of the hash_policy
	// Output:
	// 10.0.0.3:80 <nil>
}

// The cluster of Envoy has:
//
//	lb_policy: MAGLEV
func ExampleEnvoyMaglev() {
	table, err := chash.NewMaglev(chash.Named("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"), chashcompat.EnvoyMaglev())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Get("user:42"))
	// Output:
	// 10.0.0.1:80 <nil>
}

// The service config is:
//
//	{"loadBalancingConfig": [{"ring_hash_experimental": {"requestHashHeader": "x-user"}}]}
func ExampleGRPCRingHash() {
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "pod-1", Value: "10.0.0.1:50051"},
		{Name: "pod-2", Value: "10.0.0.2:50051"},
	}, chashcompat.GRPCRingHash(chashcompat.RingSize{}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("user:42"))
	// Output:
	// 10.0.0.2:50051 <nil>
}

// The agent of Cilium has:
//
//	bpf-lb-algorithm: maglev
//	bpf-lb-maglev-hash-seed: JLfvgnHc2kaSUFaI
func ExampleCilium() {
	const seed = "JLfvgnHc2kaSUFaI" // bpf-lb-maglev-hash-seed
	table, err := chash.NewMaglev(chash.Named("10.0.0.1:8080/TCP", "10.0.0.2:8080/TCP"), chashcompat.Cilium(seed))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.GetHash(0x1234ABCD)) // of a packet
	// Output:
	// 10.0.0.2:8080/TCP <nil>
}

func ExampleKatranV2() {
	table, err := chash.NewMaglev([]chash.Backend[string]{
		{Name: "10.0.0.1", HashKey: "6238072747940578789", Value: "10.0.0.1"},
		{Name: "10.0.0.2", HashKey: "15839785061582574730", Value: "10.0.0.2", Weight: 3},
	}, chashcompat.KatranV2())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.GetHash(0x1234ABCD)) // of a packet
	// Output:
	// 10.0.0.1 <nil>
}

func ExampleKatranV1() {
	table, err := chash.NewMaglev([]chash.Backend[string]{
		{Name: "10.0.0.1", HashKey: "6238072747940578789", Value: "10.0.0.1"},
		{Name: "10.0.0.2", HashKey: "15839785061582574730", Value: "10.0.0.2"},
	}, chashcompat.KatranV1())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.GetHash(0x1234ABCD)) // of a packet
	// Output:
	// 10.0.0.1 <nil>
}

// The receiver of Thanos has:
//
//	--receive.hashrings-algorithm=ketama
//	--receive.replication-factor=2
func ExampleThanos() {
	ring, err := chash.NewRing(chash.Named("receive-0:10901", "receive-1:10901", "receive-2:10901"), chashcompat.Thanos())
	if err != nil {
		log.Fatal(err)
	}
	series := chashcompat.ThanosKey("team-a",
		chashcompat.ThanosLabel{Name: "__name__", Value: "up"},
		chashcompat.ThanosLabel{Name: "job", Value: "web"},
	)
	fmt.Println(ring.GetN(series, 2))
	// Output:
	// [receive-0:10901 receive-1:10901] <nil>
}

// The program has:
//
//	pool := groupcache.NewHTTPPool("http://10.0.0.1:8000")
//	pool.Set("http://10.0.0.1:8000", "http://10.0.0.2:8000")
func ExampleGroupcache() {
	peers := []string{"http://10.0.0.1:8000", "http://10.0.0.2:8000"}
	ring, err := chash.NewRing(chash.Named(peers...), chashcompat.Groupcache(peers...))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Get("thumbnail:42"))
	// Output:
	// http://10.0.0.1:8000 <nil>
}

package chashprom_test

import (
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashprom"
)

func Example() {
	table, err := chash.NewMaglev(chash.Named("10.0.0.1:80", "10.0.0.2:80"))
	if err != nil {
		log.Fatal(err)
	}
	collector := chashprom.New()
	if err := collector.Add("web", table); err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(collector)
	http.Handle("/metrics", promhttp.Handler())
}

"""Figures for the operator, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)

# A job is a run, a sweep or a measurement of a page: what waits in line for a device.
ended = Counter("specdec_jobs_ended", "Jobs by how they ended.", ["kind", "end"], registry=REGISTRY)
refused = Counter("specdec_jobs_refused", "Jobs not taken: too many waited.", ["kind"], registry=REGISTRY)
waited = Histogram("specdec_wait_seconds", "Time in line for a device.", buckets=SECONDS, registry=REGISTRY)
held = Histogram("specdec_device_seconds", "Time a turn held a device.", buckets=SECONDS, registry=REGISTRY)
runs = Gauge("specdec_runs", "Runs in memory by state.", ["state"], registry=REGISTRY)
streams = Gauge("specdec_event_streams", "Event streams that are open.", registry=REGISTRY)
ready = Gauge("specdec_models_ready", "Whether a family is loaded.", ["family"], registry=REGISTRY)
decoders_ready = Gauge("specdec_decoders_ready", "Decoders that would take a run now.", registry=REGISTRY)
lost = Gauge("specdec_decoders_lost", "Decoder processes that died.", registry=REGISTRY)

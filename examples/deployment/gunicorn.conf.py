"""gunicorn for a seller: threads, because a paid request waits for the service and for the journal."""

bind = "127.0.0.1:8000"
workers = 2
worker_class = "gthread"
threads = 16

# Longer than max_request_seconds (55): a request that runs at a deploy is finished, not broken.
graceful_timeout = 60

# A proof is a header of the request. The default is 8190 bytes.
limit_request_field_size = 32768

# The address that clients see comes from nginx. FAREGATE_PUBLIC_URL decides what is sold, whatever they send.
forwarded_allow_ips = "127.0.0.1"

accesslog = "-"

#!/usr/bin/env bash
# Sees that there is a container engine with a base image and a Prometheus, and installs and starts what is missing (Debian,
# as root). Writes the process id of an engine that it started into the file that is its argument.
set -euo pipefail
pid_file=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly BASE_IMAGE=${NODE_IMAGE:-node:24-bookworm-slim}
readonly PROMETHEUS_IMAGE=prom/prometheus:debian

packages=()
command -v dockerd >/dev/null || packages+=(docker.io iptables)
command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1 || packages+=(docker-compose)
if ((${#packages[@]} > 0)); then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

if ! docker info >/dev/null 2>&1; then
  setsid dockerd >"${TMPDIR:-/tmp}/dockerd.log" 2>&1 </dev/null &
  echo $! >"$pid_file"
  for _ in $(seq 300); do
    docker info >/dev/null 2>&1 && break
    sleep 0.2
  done
  docker info >/dev/null || { tail -20 "${TMPDIR:-/tmp}/dockerd.log"; exit 1; }
fi

# Where no registry can be reached, a script beside the checkout makes a stand-in.
if ! docker image inspect "$BASE_IMAGE" >/dev/null 2>&1; then
  maker=$here/../../../shared/tools/base-image.sh
  if [[ -f $maker ]]; then bash "$maker" "$BASE_IMAGE"; else docker pull -q "$BASE_IMAGE"; fi
fi

# Debian's Prometheus under the name of the published image, with the same paths and arguments. Its package is only taken
# apart: installing it would start a server here.
if ! docker image inspect "$PROMETHEUS_IMAGE" >/dev/null 2>&1; then
  context=$(mktemp -d)
  trap 'rm -rf "$context"' EXIT
  cd "$context"
  chmod 755 .
  apt-get update -qq
  apt-get download -qq prometheus
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/prometheus ./usr/bin/promtool
  rm prometheus_*.deb
  cat >Dockerfile <<EOF
FROM $BASE_IMAGE
COPY prometheus promtool /bin/
RUN mkdir -p /prometheus && chown 65534:65534 /prometheus
USER 65534:65534
ENTRYPOINT ["/bin/prometheus"]
EOF
  docker build -q -t "$PROMETHEUS_IMAGE" . >/dev/null
fi

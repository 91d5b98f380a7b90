#!/usr/bin/env bash
# Builds the image TAG with whichever builder works here. The Dockerfile explains TORCH and TORCH_INDEX_URL.
set -euo pipefail
tag=$1

for builder in docker podman buildah; do
  command -v "$builder" >/dev/null && "$builder" info >/dev/null 2>&1 || continue
  options=()
  # The others' default image format has no room for a health check.
  [ "$builder" = docker ] || options+=(--format docker)
  for argument in TORCH TORCH_INDEX_URL EXTRA; do
    [ -z "${!argument:-}" ] || options+=(--build-arg "$argument=${!argument}")
  done
  echo "Building the image $tag with $builder."
  exec "$builder" build ${options[@]+"${options[@]}"} --tag "$tag" .
done
echo "No working docker, podman or buildah was found. Is the docker engine running?" >&2
exit 1

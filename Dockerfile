# Unperturbed with all that it measures with, from Debian packages and the checkout.
#
#   docker build --tag unperturbed .
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" unperturbed run -- ./program its arguments
#
# Hardware counters need the host's permission: --cap-add PERFMON, and kernel.perf_event_paranoid of the host at 2 or less.
FROM debian:bookworm-slim AS base
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates dpkg-dev g++ gcc libc6-dev libpapi-dev make python3 python3-venv util-linux valgrind \
    && rm -rf /var/lib/apt/lists/*

# For work on the code: `make test` sets up the rest, as root.
FROM base AS development
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git man-db \
    && rm -rf /var/lib/apt/lists/*

FROM base AS build
COPY . /usr/src/unperturbed
RUN python3 -m venv /opt/unperturbed \
    && /opt/unperturbed/bin/pip install --no-cache-dir '/usr/src/unperturbed[all]'

FROM base AS unperturbed
COPY --from=build /opt/unperturbed /opt/unperturbed
# A user given by number has no home, and what the tool compiles needs a place.
ENV PATH=/opt/unperturbed/bin:$PATH HOME=/tmp
WORKDIR /work
ENTRYPOINT ["unperturbed"]
CMD ["help"]

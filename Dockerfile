# LaneMQ in an image: built in one, run in another that has the programs and the libraries that they need.
#   docker build --build-arg LANEMQ_VERSION="$(scripts/version)" --tag lanemq .
FROM debian:12-slim AS build
COPY . /source
WORKDIR /source
# What scripts/version says where .git is, which stays outside. Without it a tree between releases says 0.3.0~dev.
ARG LANEMQ_VERSION
# The packages are made as for any Debian; the script installs what it needs.
RUN scripts/package --no-lint

FROM debian:12-slim
COPY --from=build /source/build/packages/lanemq*.deb /packages/
# apt finds the libraries that the packages name. No systemd here: the maintainer scripts start nothing.
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends ca-certificates /packages/*.deb \
 && rm -rf /packages /var/lib/apt/lists/* /var/cache/apt/archives/*.deb \
 && install -d -o 65532 -g 65532 -m 0700 /var/lib/lanemq
USER 65532:65532
ENV STATE_DIRECTORY=/var/lib/lanemq
VOLUME /var/lib/lanemq
# Clients, workers; the gateway has 8080.
EXPOSE 5570 5571
# Of the broker: /healthz asks for no key, and is right of one that waits for its store, too. By bash, which is there, and no HTTP client
# is. A container with another program, or without this --http, says --no-healthcheck.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/5573 && printf 'GET /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r line <&3 && [[ $line == *' 200 '* ]]"]
# The container's network is the operator's to close: nothing of it is open to others until a port is published.
CMD ["lanemq-broker", "--clients", "tcp://0.0.0.0:5570", "--workers", "tcp://0.0.0.0:5571", "--http", "127.0.0.1:5573", "--insecure"]

#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "wire/bus_generated.h"

namespace meshbus::test {

/// A directory of keys as meshbus keygen makes it.
struct KeyFolder {
  KeyFolder() {
    for (const auto role : kKeyRoles)
      std::filesystem::create_directories(
          std::filesystem::path(directory.public_path(role, "x")).parent_path());
  }
  /// Makes a key, lets it be known, and gives what its holder connects with.
  KeyDirectory make(wire::Role role, const std::string& name) {
    const auto pair = *KeyPair::make();
    REQUIRE(
        write_public_keys(directory.public_path(role, name), {pair.public_key}, name).has_value());
    REQUIRE(write_key_pair(directory.secret_path(name), pair, name).has_value());
    return of(name);
  }
  KeyDirectory of(const std::string& name) const {
    return {directory.path(), directory.secret_path(name)};
  }
  void revoke(wire::Role role, const std::string& name) {
    REQUIRE(std::filesystem::remove(directory.public_path(role, name)));
  }

  TempDir dir;
  KeyDirectory directory{dir.path().string(), {}};
};

/// A broker with keys, on a unix socket and on tcp.
struct SafeHost {
  SafeHost(Loop& its_loop, const KeyFolder& keys, const std::string& ip,
           std::optional<std::uint16_t> known_port = std::nullopt, bool insecure = false,
           const std::vector<Setting>& settings = {})
      : loop(its_loop) {
    BrokerOptions options;
    options.binds = {*HostAddr::parse("unix:" + (dir / "b")), *HostAddr::parse("tcp:" + ip + ":0")};
    options.advertise =
        *HostAddr::parse("tcp:" + ip + ":" + std::to_string(known_port.value_or(0)));
    options.monitor = *HostAddr::parse("unix:" + (dir / "m"));
    options.tokens = tokens();
    options.keys = keys.directory;
    options.insecure = insecure;
    for (const auto& [key, value] : settings) REQUIRE(options.config.set(key, value).has_value());
    auto started = Broker::start(loop.reactor, std::move(options));
    INFO((started ? std::string() : started.error().to_string()));
    REQUIRE(started.has_value());
    broker = std::move(*started);
  }
  const HostAddr& address() const { return broker->address(); }
  std::string endpoint() const { return endpoint_of(*broker, 1); }
  std::uint16_t port() const { return broker->binds()[1].port(); }
  Counters counters() const { return broker->counters(); }

  TempDir dir;
  Loop& loop;
  std::unique_ptr<Broker> broker;
};

/// What the brokers say, and nobody wants to read.
struct LogLines {
  LogLines() {
    log::set_sink([this](log::Level, std::string_view text) { lines.emplace_back(text); },
                  log::Level::info);
  }
  ~LogLines() { log::set_sink({}, log::Level::warn); }
  std::size_t count(std::string_view text) const {
    std::size_t found = 0;
    for (const auto& line : lines) found += line.find(text) != std::string::npos ? 1U : 0U;
    return found;
  }
  std::vector<std::string> lines;
};

/// A launcher that connects over tcp with somebody's key.
inline std::unique_ptr<TestPeer> attach(const SafeHost& host, const KeyDirectory& keys,
                                        wire::HelloT hello = launcher_hello()) {
  return std::make_unique<TestPeer>(host.loop, host.endpoint(), std::move(hello),
                                    keys_for(keys, host.address()));
}

}  // namespace meshbus::test

#include "bench/brokers.h"

#include <filesystem>
#include <stdexcept>

#include "common/security/keys.h"
#include "wire/codes_generated.h"

namespace meshbus::bench {

Brokers::Brokers(std::size_t count, BrokerLink link) {
  const std::string keys = link == BrokerLink::tcp_with_keys ? make_keys() : "/dev/null";
  for (std::size_t i = 0; i < count; ++i) {
    const std::string path = folder_.path() + "/broker" + std::to_string(i);
    std::vector<std::string> argv = {own_folder() + "meshbus-broker"};
    // The first address is the one that it is known by.
    if (count > 1 && link != BrokerLink::unix_socket)
      argv.insert(argv.end(), {"--bind", "tcp:127.0.0.1:0"});
    if (count > 1 && link == BrokerLink::tcp) argv.emplace_back("--insecure");
    argv.insert(argv.end(), {"--set", "keys.directory=" + keys});
    argv.insert(argv.end(), {"--bind", "unix:" + path});
    endpoints_.push_back("ipc://" + path);
    processes_.emplace_back(std::make_unique<Child>(std::move(argv)))->read_line();
  }
}

std::string Brokers::make_keys() {
  const std::string host = "127.0.0.1";
  const KeyDirectory directory(folder_.path() + "/keys", {});
  const auto known = directory.public_path(wire::Role::host, host);
  std::filesystem::create_directories(std::filesystem::path(known).parent_path());
  const auto pair = KeyPair::make();
  if (!pair) throw std::runtime_error(pair.error().detail());
  if (auto written = write_public_keys(known, {pair->public_key}, host); !written)
    throw std::runtime_error(written.error().detail());
  if (auto written = write_key_pair(directory.secret_path(host), *pair, host); !written)
    throw std::runtime_error(written.error().detail());
  return directory.path();
}

std::chrono::nanoseconds Brokers::cpu() const {
  std::chrono::nanoseconds sum{0};
  for (const auto& one : processes_) sum += one->cpu();
  return sum;
}

}  // namespace meshbus::bench

#include "client/bench/brokers.h"

namespace meshbus::bench {

Brokers::Brokers(std::size_t count, BrokerLink link) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string path = folder_.path() + "/broker" + std::to_string(i);
    std::vector<std::string> argv = {own_folder() + "meshbus-broker"};
    // The first address is the one that it is known by.
    if (count > 1 && link == BrokerLink::tcp) argv.insert(argv.end(), {"--bind", "tcp:127.0.0.1:0", "--insecure"});
    argv.insert(argv.end(), {"--bind", "unix:" + path});
    endpoints_.push_back("ipc://" + path);
    processes_.emplace_back(std::make_unique<Child>(std::move(argv)))->read_line();
  }
}

std::chrono::nanoseconds Brokers::cpu() const {
  std::chrono::nanoseconds sum{0};
  for (const auto& one : processes_) sum += one->cpu();
  return sum;
}

}  // namespace meshbus::bench

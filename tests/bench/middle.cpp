#include "tests/bench/middle.h"

#include <fstream>
#include <stdexcept>

#include "tests/bench/program.h"

namespace meshbus::bench {

Middle::Middle(Between between) {
  switch (between) {
    case Between::relay: start_relays(false); break;
    case Between::two_relays: start_relays(true); break;
    case Between::broker: start_brokers(false); break;
    case Between::two_brokers: start_brokers(true); break;
    case Between::nats: start_nats(); break;
  }
}

Child& Middle::start(std::vector<std::string> argv) {
  return *processes_.emplace_back(std::make_unique<Child>(std::move(argv)));
}

std::chrono::nanoseconds Middle::cpu() const {
  std::chrono::nanoseconds sum{0};
  for (const auto& one : processes_) sum += one->cpu();
  if (brokers_) sum += brokers_->cpu();
  return sum;
}

std::size_t Middle::resident_kib() const {
  std::size_t sum = 0;
  for (const auto& one : processes_) {
    std::ifstream status("/proc/" + std::to_string(one->pid()) + "/status");
    for (std::string word; status >> word;) {
      if (word != "VmRSS:") continue;
      std::size_t kib = 0;
      status >> kib;
      sum += kib;
    }
  }
  return sum;
}

void Middle::start_relays(bool is_two) {
  const std::string program = own_folder() + "meshbus-floor-relay";
  asker_ = other_ = "ipc://" + folder_.path() + "/relay";
  if (!is_two) {
    start({program, asker_}).read_line();
    return;
  }
  other_ += "2";
  // It prints where it listens.
  const std::string link = start({program, other_, "tcp://127.0.0.1:*"}).read_line();
  start({program, asker_, "--link", link}).read_line();
}

void Middle::start_brokers(bool is_two) {
  brokers_.emplace(is_two ? 2 : 1, BrokerLink::tcp);
  asker_ = brokers_->endpoint(0);
  other_ = brokers_->endpoint(is_two ? 1 : 0);
}

void Middle::start_nats() {
  const auto server = find_in_path("nats-server");
  if (!server) throw std::runtime_error("nats-server is not installed");
  // It says on stderr which port it chose.
  Child& nats = start({"/bin/sh", "-c", "exec \"$0\" -a 127.0.0.1 -p -1 2>&1", *server});
  const std::string before = "client connections on 127.0.0.1:";
  for (;;) {
    const std::string line = nats.read_line();
    if (const auto at = line.find(before); at != std::string::npos) asker_ = other_ = line.substr(at + before.size());
    if (line.find("Server is ready") != std::string::npos) break;
  }
  if (asker_.empty()) throw std::runtime_error("nats-server does not say where it listens");
}

}  // namespace meshbus::bench

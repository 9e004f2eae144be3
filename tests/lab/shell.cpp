// meshbus_lab_shell N: a lab of N hosts for people (./dev lab N). Reads commands; the end of its
// input, or of itself, removes the lab.
#define DOCTEST_CONFIG_IMPLEMENT  // the library of test support needs it, though no test runs here
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/lab/lab.h"
#include "tests/support/own_cgroups.h"

namespace {

using meshbus::test::CableDelay;
using meshbus::test::Lab;
using meshbus::test::OwnCgroups;

constexpr const char* help = R"(  hosts                 who there is
  on HOST COMMAND...    run a command line on a host; without one, a shell
  cut A B | heal [A B]  nothing passes between two hosts, until it is healed
  lose A B SHARE        that share (0 to 1) of what A sends to B vanishes
  unplug|plug HOST      pull its cable, and put it in again
  delay HOST MS [MS]    delay what passes its cable, with jitter
  freeze|thaw HOST      stop all its processes, and let them go on
  off|boot HOST         cut its power, and start it anew
  quit
)";

void show(const Lab& lab) {
  for (std::size_t i = 0; i < lab.size(); ++i) {
    const Lab::Host host = lab.host(i);
    std::cout << i << "  " << host.name() << "  " << host.address()
              << (host.is_up() ? "" : "  no power") << "\n";
  }
}

/// On the terminal, not captured.
void run_on(const Lab::Host& host, const std::string& line) {
  std::vector<std::string> words = host.command(
      line.empty() ? std::vector<std::string>{"sh"} : std::vector<std::string>{"sh", "-c", line});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::signal(SIGINT, SIG_IGN);  // Ctrl-C is for what runs on the host
  ::signal(SIGQUIT, SIG_IGN);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGQUIT, SIG_DFL);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::waitpid(child, nullptr, 0);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGQUIT, SIG_DFL);
}

/// False to quit. Throws what the lab throws, and on bad words.
bool obey(Lab& lab, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  if (!(words >> verb)) return true;
  const auto number = [&]<typename T>(T standard, bool is_needed = true) {
    T value = standard;
    if (!(words >> value) && (is_needed || !words.eof()))
      throw std::runtime_error("\"" + line + "\": a number is missing or wrong");
    return value;
  };
  const auto host = [&] { return number(std::size_t{0}); };
  if (verb == "quit") return false;
  if (verb == "hosts") {
    show(lab);
  } else if (verb == "on") {
    const Lab::Host there = lab.host(host());
    std::string rest;
    std::getline(words >> std::ws, rest);
    run_on(there, rest);
  } else if (verb == "cut") {
    const auto a = host(), b = host();
    lab.cut(a, b);
  } else if (verb == "heal" && (words >> std::ws).eof()) {
    lab.heal();
  } else if (verb == "heal") {
    const auto a = host(), b = host();
    lab.heal(a, b);
  } else if (verb == "lose") {
    const auto from = host(), to = host();
    lab.lose(from, to, number(1.0));
  } else if (verb == "delay") {
    const auto at = host();
    const auto delay = number(0.0), jitter = number(0.0, false);
    lab.delay(at, {std::chrono::microseconds(static_cast<long>(delay * 1000)),
                   std::chrono::microseconds(static_cast<long>(jitter * 1000))});
  } else {
    const std::map<std::string, void (Lab::*)(std::size_t)> rest = {
        {"unplug", &Lab::unplug}, {"plug", &Lab::plug},     {"freeze", &Lab::freeze},
        {"thaw", &Lab::thaw},     {"off", &Lab::power_off}, {"boot", &Lab::boot}};
    const auto found = rest.find(verb);
    if (found == rest.end())
      throw std::runtime_error("\"" + verb + "\" is not understood. There are:\n" + help);
    (lab.*found->second)(host());
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 2 ? std::atoi(argv[1]) : 0;
  if (count < 1 || count > 250) {
    std::cerr << "usage: meshbus_lab_shell HOSTS (1 to 250)\n";
    return 2;
  }
  if (const std::string& reason = Lab::why_not(); !reason.empty()) {
    std::cerr << "meshbus_lab_shell: no lab can be made here: " << reason << "\n";
    return 1;
  }
  try {
    const OwnCgroups cgroups;
    Lab lab(static_cast<std::size_t>(count));
    show(lab);
    std::cout << "room " << lab.room() << ", on each host another one\n" << help;
    const bool is_terminal = ::isatty(0) == 1;
    for (std::string line;;) {
      if (is_terminal) std::cout << "lab> ";
      std::cout << std::flush;
      if (!std::getline(std::cin, line)) break;
      try {
        if (!obey(lab, line)) break;
      } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
      }
    }
  } catch (const std::exception& error) {
    std::cerr << "meshbus_lab_shell: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

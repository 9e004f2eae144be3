#include "agent/warden/ready_report.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>

namespace meshbus::warden {

namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x",
                    static_cast<unsigned>(static_cast<unsigned char>(letter)));
      out += escape.data();
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

}  // namespace

std::string to_json_line(const ReadyReport& report) {
  return "{\"host\":" + quote(report.host) + ",\"pid\":" + std::to_string(report.pid) +
         ",\"containment\":" + quote(report.containment) +
         (report.containment_reason.empty()
              ? ""
              : ",\"containment_reason\":" + quote(report.containment_reason)) +
         ",\"pids_limit\":" + std::to_string(report.pids_limit) +
         (report.pids_reason.empty() ? "" : ",\"pids_limit_reason\":" + quote(report.pids_reason)) +
         ",\"run_dir\":" + quote(report.run_dir) +
         ",\"monitor\":" + quote("unix:" + report.run_dir + "/monitor") +
         (report.metrics.empty() ? "" : ",\"metrics\":" + quote(report.metrics)) +
         ",\"broker_pid\":" + std::to_string(report.broker_pid) +
         ",\"agent_pid\":" + std::to_string(report.agent_pid) +
         ",\"keeper_pid\":" + std::to_string(report.keeper_pid) + "}\n";
}

std::string error_json_line(std::string_view error) {
  return "{\"error\":" + quote(error) + "}\n";
}

std::string role_event_line(std::int64_t time_ns, std::string_view text) {
  const std::time_t seconds = time_ns / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06dZ",
                static_cast<int>(time_ns % 1'000'000'000 / 1000));
  return "{\"time\":\"" + std::string(time.data()) + fraction.data() +
         "\",\"time_ns\":" + std::to_string(time_ns) +
         ",\"kind\":\"role_ended\",\"text\":" + quote(text) + "}\n";
}

void write_line(int fd, std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(fd, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace meshbus::warden

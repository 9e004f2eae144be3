#include "tests/support/process_table.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>

#include "tests/support/temp_dir.h"

namespace meshbus::test {

std::string ProcessInfo::to_string() const {
  return std::to_string(pid) + " (" + state + ", parent " + std::to_string(parent) +
         "): " + command;
}

std::optional<ProcessInfo> find_process(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string stat = read_file(folder + "/stat");
  // pid (name) state ppid pgrp session ...: the name may hold spaces and parentheses.
  const std::size_t open = stat.find('('), close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  ProcessInfo info;
  info.pid = pid;
  info.name = stat.substr(open + 1, close - open - 1);
  std::istringstream fields(stat.substr(close + 1));
  fields >> info.state >> info.parent >> info.group >> info.session;
  std::string skipped;
  for (int field = 7; field < 20; ++field)
    fields >> skipped;  // num_threads is field 20, counted from 1
  fields >> info.threads;
  info.command = read_file(folder + "/cmdline");
  while (!info.command.empty() && info.command.back() == '\0') info.command.pop_back();
  std::replace(info.command.begin(), info.command.end(), '\0', ' ');
  if (info.command.empty()) info.command = "[" + info.name + "]";
  return info;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return all;
  while (const dirent* entry = ::readdir(folder.get())) {
    char* end = nullptr;
    const long pid = std::strtol(entry->d_name, &end, 10);
    if (pid <= 0 || *end != '\0') continue;
    if (auto info = find_process(static_cast<pid_t>(pid))) all.push_back(std::move(*info));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return all;
}

std::vector<ProcessInfo> children_of(pid_t parent) {
  auto all = all_processes();
  std::erase_if(all, [&](const ProcessInfo& one) { return one.parent != parent; });
  return all;
}

std::vector<ProcessInfo> descendants_of(pid_t ancestor) {
  const auto all = all_processes();
  std::set<pid_t> family = {ancestor};
  // A child may have a smaller pid than its parent, so one pass is not enough.
  for (std::size_t before = 0; before != family.size();) {
    before = family.size();
    for (const auto& one : all) {
      if (family.contains(one.parent)) family.insert(one.pid);
    }
  }
  std::vector<ProcessInfo> found;
  for (const auto& one : all) {
    if (one.pid != ancestor && family.contains(one.pid) && !one.is_dead()) found.push_back(one);
  }
  return found;
}

std::vector<ProcessInfo> processes_with(std::string_view text) {
  auto all = all_processes();
  std::erase_if(all, [&](const ProcessInfo& one) {
    return one.pid == ::getpid() || one.is_dead() || one.command.find(text) == std::string::npos;
  });
  return all;
}

std::vector<ProcessInfo> own_processes_with(std::string_view text) {
  const char* const own = std::getenv("TMPDIR");
  const std::string variable = std::string("TMPDIR=") + (own == nullptr ? "" : own);
  auto found = processes_with(text);
  std::erase_if(found, [&](const ProcessInfo& one) {
    return read_file("/proc/" + std::to_string(one.pid) + "/environ").find(variable) ==
           std::string::npos;
  });
  return found;
}

bool is_gone(pid_t pid) {
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  const auto info = find_process(pid);
  return !info || info->is_dead();
}

std::string to_string(const std::vector<ProcessInfo>& processes) {
  std::string text;
  for (const auto& one : processes) text += (text.empty() ? "" : "\n") + one.to_string();
  return text;
}

}  // namespace meshbus::test

#include "cli/support/host_list.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cli/support/contexts.h"

namespace meshbus::cli {
namespace {

constexpr std::size_t kLargestFile = 4 << 20;

tl::unexpected<Error> refuse(std::string why) {
  return fail(ErrorCode::configuration_error, std::move(why));
}

Result<std::vector<HostWord>> to_words(std::string_view list, const std::string& source) {
  const auto expanded = expand_hosts(list);
  if (!expanded) return fail(expanded.error().within(source));
  std::vector<HostWord> words;
  for (const auto& text : *expanded) words.push_back({text, source});
  return words;
}

Result<std::vector<HostWord>> read_hostfile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // A directory can be opened, and not read.
  if (!file || (text.str().empty() && file.peek() != std::ifstream::traits_type::eof()))
    return refuse("hostfile " + path + ": " +
                  (errno != 0 ? std::strerror(errno) : "it cannot be read"));
  if (text.str().size() > kLargestFile)
    return refuse("hostfile " + path + " is larger than 4 MiB: is it a list of hosts?");
  return parse_hostfile(text.str(), path);
}

Result<HostList> make_list(Result<std::vector<HostWord>> words, std::string source) {
  if (!words) return fail(words.error());
  if (words->empty()) return refuse(source + " names no host");
  return HostList{std::move(*words), std::move(source), {}};
}

Result<HostList> read_context(const std::string& name) {
  auto context = ContextStore::of_user().read(name);
  if (!context) return fail(context.error());
  auto list = make_list(to_words(context->hosts, "context " + name), "context " + name);
  if (list) list->settings = std::move(context->settings);
  return list;
}

/// Whether a word looks like the name of a machine, with or without a port.
bool is_machine(std::string_view word) {
  const auto name = word.substr(0, word.find(':'));
  return !name.empty() &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
             "0123456789.-_") == std::string_view::npos &&
         std::all_of(word.begin() + static_cast<std::ptrdiff_t>(name.size()), word.end(),
                     [](char c) { return c == ':' || (c >= '0' && c <= '9'); });
}

}  // namespace

Result<std::vector<HostWord>> parse_hostfile(std::string_view text, const std::string& path) {
  std::vector<HostWord> words;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    auto more = to_words(line, "hostfile " + path + ", line " + std::to_string(number));
    if (!more) return more;
    words.insert(words.end(), more->begin(), more->end());
    if (words.size() > kMostHostsListed)
      return refuse("hostfile " + path + ": more than " + std::to_string(kMostHostsListed) +
                    " hosts");
  }
  return words;
}

Result<HostList> hosts_said(const HostsSaid& said) {
  if (!said.list.empty()) return make_list(to_words(said.list, "--hosts"), "--hosts");
  if (!said.file.empty()) return make_list(read_hostfile(said.file), "hostfile " + said.file);
  if (!said.context.empty()) return read_context(said.context);
  if (const char* hosts = std::getenv("MESHBUS_HOSTS"); hosts != nullptr && *hosts != '\0')
    return make_list(to_words(hosts, "MESHBUS_HOSTS"), "MESHBUS_HOSTS");
  return HostList();
}

Result<HostList> hosts_in_use() {
  const auto name = ContextStore::of_user().in_use();
  if (!name) return fail(name.error());
  return name->empty() ? HostList() : read_context(*name);
}

Result<HostList> choose_hosts(const HostsSaid& said) {
  auto list = hosts_said(said);
  return !list || !list->words.empty() ? list : hosts_in_use();
}

bool is_ssh(const HostList& list) {
  return !list.words.empty() && list.words.front().text.starts_with("ssh:");
}

namespace {

/// Says what is wrong with a word that is no address.
Error in_words(const Error& error, const HostWord& word) {
  constexpr std::string_view tcp = "tcp:";
  const std::string_view text = word.text;
  const auto say = [&](const std::string& what) {
    return Error(error.code(), word.source + ": " + word.text + what);
  };
  if (text.starts_with(tcp) && text.find(':', tcp.size()) == std::string_view::npos)
    return say(" has no port; did you mean " + word.text + ":7420?");
  if (!text.starts_with(tcp) && !text.starts_with("unix:") && !text.starts_with("local:"))
    return say(" is no address: that of a host begins with tcp:, unix: or ssh:");
  return error.within(word.source + ": " + word.text);
}

}  // namespace

Result<std::vector<HostAddr>> parse_hosts(const HostList& list) {
  std::vector<HostAddr> addresses;
  addresses.reserve(list.words.size());
  for (const auto& word : list.words) {
    auto address = HostAddr::parse(word.text);
    if (!address && is_machine(word.text)) {
      const auto name = word.text.substr(0, word.text.find(':'));
      const auto port = name.size() == word.text.size() ? ":7420" : word.text.substr(name.size());
      return fail(address.error().code(), word.source + ": " + word.text +
                                              " is no address; did you mean tcp:" + name + port +
                                              " or ssh:" + name + "?");
    }
    if (!address) return fail(in_words(address.error(), word));
    if (address->transport() == Transport::local)
      return refuse(word.source + ": " + word.text +
                    " is a host inside of the program that made it: no other program can reach it; "
                    "name hosts by tcp:NAME:PORT, unix:/path or ssh:NAME");
    addresses.push_back(std::move(*address));
  }
  return addresses;
}

}  // namespace meshbus::cli

#include "agent/mpi/pmi1_server.h"

#include <charconv>

namespace meshbus::mpi {
namespace {

/// "x" of " key=x"; a value may have blanks and goes to the end of the line.
std::string_view field(std::string_view line, std::string_view key) {
  for (std::size_t from = 0; from < line.size();) {
    const bool is_here =
        line.substr(from).starts_with(key) && line.substr(from + key.size()).starts_with('=');
    if (is_here) {
      const auto text = line.substr(from + key.size() + 1);
      return key == "value" ? text : text.substr(0, text.find(' '));
    }
    const auto blank = line.find(' ', from);
    if (blank == std::string_view::npos) break;
    from = blank + 1;
  }
  return {};
}

int number_of(std::string_view text, int otherwise) {
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Pmi1Server::Pmi1Server(RankLayout layout, std::uint64_t host)
    : layout_(layout), block_(layout.block_of(host)) {
  values_["PMI_process_mapping"] = layout.process_mapping();
}

Pmi1Server::Outcome Pmi1Server::on_line(std::uint64_t rank, std::string_view line) {
  const auto say = [rank](std::string text) {
    return Outcome{.replies = {{rank, std::move(text) + "\n"}}};
  };
  const auto command = field(line, "cmd");
  if (command == "init") {
    inside_.insert(rank);
    begun_.insert(rank);
    return say("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  }
  if (command == "get_maxes") return say("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
  if (command == "get_appnum") return say("cmd=appnum appnum=0");
  if (command == "get_my_kvsname") return say("cmd=my_kvsname kvsname=meshbus");
  if (command == "get_universe_size")
    return say("cmd=universe_size size=" + std::to_string(layout_.ranks()));
  if (command == "put") return put(rank, line);
  if (command == "get") return get(rank, line);
  if (command == "barrier_in") return enter_barrier(rank);
  if (command == "abort") return abort(rank, line);
  if (command == "finalize") {
    inside_.erase(rank);
    return say("cmd=finalize_ack");
  }
  // A spawn has several lines, of which this is the first; MPICH waits for the answer for ever.
  if (field(line, "mcmd") == "spawn") {
    auto outcome = say("cmd=spawn_result rc=-1 status=not_supported");
    outcome.notice = {
        .kind = Notice::Kind::refused, .rank = rank, .code = 1, .text = "MPI_Comm_spawn"};
    return outcome;
  }
  if (command == "publish_name" || command == "lookup_name" || command == "unpublish_name") {
    const auto verb = command.substr(0, command.find('_'));
    return say("cmd=" + std::string(verb) + "_result info=not_supported rc=-1 msg=not_supported");
  }
  if (command.empty()) return {};  // A further line of a spawn.
  return say("cmd=" + std::string(command) + "_result rc=-1 msg=not_supported");
}

Pmi1Server::Outcome Pmi1Server::put(std::uint64_t rank, std::string_view line) {
  const auto key = field(line, "key");
  const auto value = field(line, "value");
  values_.insert_or_assign(std::string(key), std::string(value));
  fresh_.append(key).push_back('\0');
  fresh_.append(value).push_back('\0');
  return {.replies = {{rank, "cmd=put_result rc=0 msg=success\n"}}};
}

Pmi1Server::Outcome Pmi1Server::get(std::uint64_t rank, std::string_view line) const {
  const auto found = values_.find(field(line, "key"));
  return {
      .replies = {{rank, found == values_.end()
                             ? "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"
                             : "cmd=get_result rc=0 msg=success value=" + found->second + "\n"}}};
}

Pmi1Server::Outcome Pmi1Server::enter_barrier(std::uint64_t rank) {
  waiting_.insert(rank);
  if (waiting_.size() < block_.size()) return {};
  Outcome outcome;
  outcome.fence = std::move(fresh_);
  fresh_.clear();
  return outcome;
}

Pmi1Server::Outcome Pmi1Server::on_fence(std::string_view values) {
  const auto take = [&values] {
    const auto end = values.find('\0');
    std::string text(values.substr(0, end));
    values.remove_prefix(end == std::string_view::npos ? values.size() : end + 1);
    return text;
  };
  while (!values.empty()) {
    auto key = take();
    values_.insert_or_assign(std::move(key), take());
  }
  Outcome outcome;
  for (const auto rank : waiting_) outcome.replies.emplace_back(rank, "cmd=barrier_out\n");
  waiting_.clear();
  return outcome;
}

Pmi1Server::Outcome Pmi1Server::abort(std::uint64_t rank, std::string_view line) {
  // MPI_Abort of MPICH returns when it gets an answer, whichever that is.
  return {.aborts = true,
          .notice = Notice{.kind = Notice::Kind::abort,
                           .rank = rank,
                           .code = number_of(field(line, "exitcode"), 1)}};
}

}  // namespace meshbus::mpi

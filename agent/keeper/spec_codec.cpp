// The spawn request as bytes: what travels in the memfd.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "agent/keeper/byte_stream.h"
#include "agent/keeper/protocol.h"

namespace meshbus::keeper {

namespace {

constexpr std::uint32_t kSpecMagic = 0x4b53'4d06;  // "\6MSK": version 6
constexpr std::size_t kMaxGroups = 65536;          // as many as the kernel takes
/// ProcSpec::beside of a joinable proc travels as a variable, which a keeper of an older release
/// takes for one: it then starts a process for the proc.
constexpr std::string_view kBesideKey = "MESHBUS_KEEPER_BESIDE=";

bool has_nul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

Result<void> check_strings(const std::vector<std::string>& strings, const char* what) {
  if (strings.size() > kMaxStringsPerSpec) {
    return fail(ErrorCode::too_large, std::string(what) + " has " + std::to_string(strings.size()) +
                                          " entries; at most " +
                                          std::to_string(kMaxStringsPerSpec) + " are possible");
  }
  const auto bad = std::find_if(strings.begin(), strings.end(), has_nul);
  if (bad == strings.end()) return {};
  return fail(ErrorCode::configuration_error, std::string(what) + " entry " +
                                                  std::to_string(bad - strings.begin()) +
                                                  " contains a NUL byte");
}

/// `most`: that number and larger ones do not exist.
Result<void> check_numbers(const std::vector<std::uint32_t>& numbers, std::uint32_t most,
                           const char* what) {
  if (numbers.size() > most) return fail(ErrorCode::too_large, std::string("too many ") + what);
  if (std::all_of(numbers.begin(), numbers.end(),
                  [most](std::uint32_t number) { return number < most; }))
    return {};
  return fail(ErrorCode::configuration_error,
              std::string(what) + " have a number of " + std::to_string(most) + " or more");
}

Result<void> check_placement(const os::Placement& placement) {
  if (auto checked = check_numbers(placement.cpus, os::kMaxCpus, "CPUs"); !checked) return checked;
  return check_numbers(placement.memory_nodes, os::kMaxMemoryNodes, "NUMA nodes");
}

Result<void> check_spec(const os::SpawnSpec& spec) {
  if (spec.program.empty()) return fail(ErrorCode::configuration_error, "spawn without a program");
  if (has_nul(spec.program) || has_nul(spec.cwd) || has_nul(spec.mesh)) {
    return fail(ErrorCode::configuration_error,
                "program, working directory or mesh name contains a NUL byte");
  }
  const os::ProcSettings& settings = spec.settings;
  if (settings.limits.size() > 32)
    return fail(ErrorCode::too_large, "more than 32 resource limits");
  if (settings.groups.size() > kMaxGroups) return fail(ErrorCode::too_large, "too many groups");
  if (auto checked = check_numbers(settings.cpus, os::kMaxCpus, "CPUs"); !checked) return checked;
  if (auto checked = check_strings(spec.argv, "argv"); !checked) return checked;
  return check_strings(spec.env, "the environment");
}

void put_optional(ByteWriter& writer, const std::optional<std::uint32_t>& value) {
  writer.put(static_cast<std::uint8_t>(value.has_value()));
  writer.put(value.value_or(0));
}

void put_numbers(ByteWriter& writer, const std::vector<std::uint32_t>& numbers) {
  writer.put(static_cast<std::uint32_t>(numbers.size()));
  for (const std::uint32_t number : numbers) writer.put(number);
}

void put_settings(ByteWriter& writer, const os::ProcSettings& settings) {
  writer.put(static_cast<std::uint8_t>(settings.new_session));
  writer.put(static_cast<std::uint8_t>(settings.subreaper));
  writer.put(static_cast<std::uint8_t>(settings.no_new_privs));
  put_optional(writer, settings.nice ? std::optional(static_cast<std::uint32_t>(*settings.nice))
                                     : std::nullopt);
  put_optional(writer, settings.umask);
  put_optional(writer, settings.uid);
  put_optional(writer, settings.gid);
  put_numbers(writer, settings.cpus);
  put_numbers(writer, settings.groups);
  writer.put(settings.group.memory);
  writer.put(settings.group.pids);
  writer.put(settings.group.cpu_milli);
  writer.put(static_cast<std::uint32_t>(settings.limits.size()));
  for (const os::ResourceLimit& limit : settings.limits) {
    writer.put(limit.resource);
    writer.put(limit.soft);
    writer.put(limit.hard);
  }
}

std::optional<std::uint32_t> get_optional(ByteReader& reader) {
  const bool has_value = reader.get<std::uint8_t>() != 0;
  const auto value = reader.get<std::uint32_t>();
  return has_value ? std::optional(value) : std::nullopt;
}

bool get_numbers(ByteReader& reader, std::vector<std::uint32_t>& numbers) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMaxGroups) return false;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i)
    numbers.push_back(reader.get<std::uint32_t>());
  return reader.ok();
}

bool get_settings(ByteReader& reader, os::ProcSettings& settings) {
  settings.new_session = reader.get<std::uint8_t>() != 0;
  settings.subreaper = reader.get<std::uint8_t>() != 0;
  settings.no_new_privs = reader.get<std::uint8_t>() != 0;
  if (const auto nice = get_optional(reader)) settings.nice = static_cast<int>(*nice);
  settings.umask = get_optional(reader);
  settings.uid = get_optional(reader);
  settings.gid = get_optional(reader);
  if (!get_numbers(reader, settings.cpus) || !get_numbers(reader, settings.groups)) return false;
  settings.group.memory = reader.get<std::uint64_t>();
  settings.group.pids = reader.get<std::uint64_t>();
  settings.group.cpu_milli = reader.get<std::uint32_t>();
  const auto count = reader.get<std::uint32_t>();
  if (!reader.ok() || count > 32) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    os::ResourceLimit& limit = settings.limits.emplace_back();
    limit.resource = reader.get<std::uint32_t>();
    limit.soft = reader.get<std::uint64_t>();
    limit.hard = reader.get<std::uint64_t>();
  }
  return reader.ok();
}

void put_placement(ByteWriter& writer, const os::Placement& placement) {
  put_numbers(writer, placement.cpus);
  writer.put(static_cast<std::uint8_t>(placement.memory));
  put_numbers(writer, placement.memory_nodes);
}

bool get_placement(ByteReader& reader, os::Placement& placement) {
  if (!get_numbers(reader, placement.cpus)) return false;
  const auto memory = reader.get<std::uint8_t>();
  if (memory > static_cast<std::uint8_t>(os::Placement::Memory::only)) return false;
  placement.memory = static_cast<os::Placement::Memory>(memory);
  return get_numbers(reader, placement.memory_nodes) && check_placement(placement);
}

void put_strings(ByteWriter& writer, const std::vector<std::string>& strings) {
  writer.put(static_cast<std::uint32_t>(strings.size()));
  for (const std::string& text : strings) writer.put(text);
}

bool get_strings(ByteReader& reader, std::vector<std::string>& strings) {
  const auto count = reader.get<std::uint32_t>();
  if (count > kMaxStringsPerSpec) return false;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) strings.push_back(reader.get_string());
  return reader.ok();
}

bool get_stdio(ByteReader& reader, os::Stdio& choice) {
  const auto number = reader.get<std::uint8_t>();
  if (number > static_cast<std::uint8_t>(os::Stdio::inherit)) return false;
  choice = static_cast<os::Stdio>(number);
  return reader.ok();
}

bool get_shared(ByteReader& reader, os::SpawnSpec& spec) {
  spec.program = reader.get_string();
  spec.cwd = reader.get_string();
  spec.mesh = reader.get_string();
  spec.is_template = reader.get<std::uint8_t>() != 0;
  if (!get_settings(reader, spec.settings)) return false;
  spec.parent_death_signal = reader.get<std::int32_t>();
  if (spec.parent_death_signal < 0 || spec.parent_death_signal > 64) return false;
  return get_strings(reader, spec.argv) && get_strings(reader, spec.env);
}

/// False: the variable is not as encode_batch() makes it.
bool take_beside(os::ProcSpec& proc) {
  if (proc.env.empty() || !proc.env.back().starts_with(kBesideKey)) return true;
  const auto text = std::string_view(proc.env.back()).substr(kBesideKey.size());
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), proc.beside);
  if (error != std::errc() || stop != text.data() + text.size() || proc.place != 0) return false;
  proc.is_joinable = true;
  proc.env.pop_back();
  return true;
}

}  // namespace

Result<std::vector<std::byte>> encode_batch(const os::SpawnSpec& shared,
                                            std::span<const os::ProcSpec> procs) {
  if (auto checked = check_spec(shared); !checked) return fail(checked.error());
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  writer.put(kSpecMagic);
  writer.put(shared.program);
  writer.put(shared.cwd);
  writer.put(shared.mesh);
  writer.put(static_cast<std::uint8_t>(shared.is_template));
  put_settings(writer, shared.settings);
  writer.put(static_cast<std::int32_t>(shared.parent_death_signal));
  put_strings(writer, shared.argv);
  put_strings(writer, shared.env);
  writer.put(static_cast<std::uint32_t>(procs.size()));
  for (const os::ProcSpec& proc : procs) {
    if (auto checked = check_strings(proc.env, "the environment of one proc"); !checked)
      return fail(checked.error());
    if (auto checked = check_placement(proc.placement); !checked) return fail(checked.error());
    writer.put(proc.id);
    writer.put(static_cast<std::uint8_t>(proc.stdin_choice));
    writer.put(static_cast<std::uint8_t>(proc.stdout_choice));
    writer.put(static_cast<std::uint8_t>(proc.stderr_choice));
    writer.put(static_cast<std::uint8_t>(proc.bootstrap ? 1 : 0));
    writer.put(proc.place);
    put_placement(writer, proc.placement);
    if (proc.is_joinable) {
      auto env = proc.env;
      env.push_back(std::string(kBesideKey) + std::to_string(proc.beside));
      put_strings(writer, env);
    } else {
      put_strings(writer, proc.env);
    }
  }
  if (bytes.size() > kMaxSpecBytes) {
    return fail(ErrorCode::too_large, "a spawn request of " + std::to_string(bytes.size()) +
                                          " bytes (command and environments of " +
                                          std::to_string(procs.size()) + " procs); at most " +
                                          std::to_string(kMaxSpecBytes));
  }
  return bytes;
}

Result<os::SpawnBatch> decode_batch(std::span<const std::byte> bytes,
                                    std::vector<UniqueFd> bootstraps) {
  const auto malformed = [](const char* what) {
    return fail(ErrorCode::malformed_message, std::string("spawn request: ") + what);
  };
  ByteReader reader(bytes);
  if (reader.get<std::uint32_t>() != kSpecMagic) return malformed("bad magic or version");
  os::SpawnBatch batch;
  if (!get_shared(reader, batch.shared)) return malformed("the shared part is broken");
  if (auto checked = check_spec(batch.shared); !checked)
    return malformed("the shared part has impossible values");
  const auto count = reader.get<std::uint32_t>();
  if (!reader.ok() || count > kMaxProcsPerBatch) return malformed("too many procs");
  auto next_bootstrap = bootstraps.begin();
  for (std::uint32_t i = 0; i < count; ++i) {
    os::ProcSpec& proc = batch.procs.emplace_back();
    proc.id = reader.get<std::uint64_t>();
    const bool stdio_ok = get_stdio(reader, proc.stdin_choice) &&
                          get_stdio(reader, proc.stdout_choice) &&
                          get_stdio(reader, proc.stderr_choice);
    const bool has_bootstrap = reader.get<std::uint8_t>() != 0;
    proc.place = reader.get<std::uint32_t>();
    if (!stdio_ok || !get_placement(reader, proc.placement) || !get_strings(reader, proc.env) ||
        !check_strings(proc.env, "env") || !take_beside(proc))
      return malformed("a proc's part is broken");
    if (proc.place != 0 && (i == 0 || has_bootstrap || proc.place != batch.procs[i - 1].place + 1))
      return malformed("a proc shares a process that is not in the batch");
    if (!has_bootstrap) continue;
    if (next_bootstrap == bootstraps.end())
      return malformed("fewer bootstrap descriptors than announced");
    proc.bootstrap = std::move(*next_bootstrap++);
  }
  if (!reader.ok() || !reader.at_end() || next_bootstrap != bootstraps.end())
    return malformed("its length does not fit its contents");
  return batch;
}

}  // namespace meshbus::keeper

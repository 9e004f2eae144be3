#include "agent/host/lifecycle/bootstrap_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/wire/protocol.h"
#include "common/wire/wire_region.h"
#include "wire/bootstrap_generated.h"

namespace meshbus::host {

std::chrono::milliseconds setting_for_proc(const Config& config, DurationKey key,
                                           const std::vector<NamedValue>& of_launcher) {
  auto value = static_cast<std::uint64_t>(config.duration(key).count());
  for (const auto& shown : config.show()) {
    if (shown.key != key.info().name || shown.source != "default") continue;
    for (const auto& [name, text] : of_launcher) {
      const auto parsed =
          name == shown.key ? parse_value(key.info(), text) : Result<std::uint64_t>(value);
      if (parsed) value = *parsed;
    }
  }
  return std::chrono::milliseconds(std::min<std::uint64_t>(value, UINT32_MAX));
}

std::vector<std::uint8_t> BootstrapWriter::encode(const MeshSpec& spec,
                                                  const std::vector<Rank>& ranks) const {
  const HostAddr& host = spec.hosts[spec.host_index];
  wire::BootstrapT bootstrap;
  for (const Rank& rank : ranks) {
    auto proc = std::make_unique<wire::BootstrapProcT>();
    proc->proc = ProcId(host, proc_name(spec.mesh, rank.rank)).to_string();
    proc->incarnation = rank.incarnation;
    proc->token = tokens_.make(proc->proc, rank.incarnation);
    proc->rank = rank.rank;
    bootstrap.procs.push_back(std::move(proc));
  }
  bootstrap.broker = broker_;
  bootstrap.host = host.to_string();
  bootstrap.mesh = spec.mesh.to_string();
  bootstrap.region = to_wire(spec.region);
  for (const auto& each : spec.hosts) bootstrap.hosts.push_back(each.to_string());
  bootstrap.revision = spec.revision;
  bootstrap.rank = ranks.front().rank;
  for (const auto& [key, value] : spec.config) {
    auto entry = std::make_unique<wire::KeyValueT>();
    entry->key = key;
    entry->value = value;
    bootstrap.config.push_back(std::move(entry));
  }
  const auto milliseconds = [&](DurationKey key) {
    return static_cast<std::uint32_t>(setting_for_proc(config_, key, spec.config).count());
  };
  bootstrap.away_ms = milliseconds(keys::session_away);
  bootstrap.heartbeat_ms = milliseconds(keys::heartbeat);
  const Protocol protocol;
  bootstrap.version = protocol.newest;
  bootstrap.oldest = protocol.oldest;
  bootstrap.release = protocol.release;
  flatbuffers::FlatBufferBuilder builder(1024);
  builder.Finish(wire::Bootstrap::Pack(builder, &bootstrap));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Result<UniqueFd> BootstrapWriter::write(const MeshSpec& spec,
                                        const std::vector<Rank>& ranks) const {
  const auto bytes = encode(spec, ranks);
  UniqueFd fd(memfd_create("meshbus-bootstrap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto problem = [](const char* call) {
    return fail(ErrorCode::io_error,
                std::string("bootstrap memory: ") + call + ": " + std::strerror(errno));
  };
  if (!fd) return problem("memfd_create");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return problem("write");
    done += static_cast<std::size_t>(n);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return problem("F_ADD_SEALS");
  if (lseek(fd.get(), 0, SEEK_SET) != 0) return problem("lseek");
  return fd;
}

}  // namespace meshbus::host

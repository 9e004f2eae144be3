#include "common/files/file_records.h"

namespace meshbus {
namespace {

template <typename Number>
void put(std::string& out, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xffU);
}

template <typename Number>
Number get(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return static_cast<Number>(value);
}

/// A file's size is for people: its bytes come in records of their own.
std::uint64_t bytes_behind(const FileRecordHead& head) {
  return head.type == FileRecord::file ? 0 : head.size;
}

}  // namespace

void add_file_record(std::string& out, const FileRecordHead& head, std::string_view name,
                     std::string_view bytes) {
  put(out, static_cast<std::uint8_t>(head.type));
  put(out, std::uint8_t{0});
  put(out, static_cast<std::uint16_t>(name.size()));
  put(out, head.mode);
  put(out, head.time_ns);
  put(out, head.type == FileRecord::file ? head.size : std::uint64_t{bytes.size()});
  out += name;
  out += bytes;
}

std::optional<FileRecords::Record> FileRecords::next() {
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  FileRecordHead head;
  const bool has_head = rest.size() >= kFileRecordSize;
  if (has_head) {
    head = {.type = static_cast<FileRecord>(rest[0]),
            .name_size = get<std::uint16_t>(rest, 2),
            .mode = get<std::uint32_t>(rest, 4),
            .time_ns = get<std::int64_t>(rest, 8),
            .size = get<std::uint64_t>(rest, 16)};
    is_broken_ = is_broken_ || head.type < FileRecord::begin || head.type > FileRecord::end ||
                 bytes_behind(head) > kMostFileData;
  }
  if (is_broken_) return std::nullopt;
  const auto whole = kFileRecordSize + head.name_size + bytes_behind(head);
  if (!has_head || rest.size() < whole) {
    bytes_.erase(0, at_);
    at_ = 0;
    return std::nullopt;
  }
  at_ += static_cast<std::size_t>(whole);
  return Record{
      head, rest.substr(kFileRecordSize, head.name_size),
      rest.substr(kFileRecordSize + head.name_size, static_cast<std::size_t>(bytes_behind(head)))};
}

}  // namespace meshbus

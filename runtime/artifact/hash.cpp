#include "runtime/artifact/hash.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <openssl/sha.h>
#include <thread>

namespace lockstep::runtime {

static constexpr size_t leafBytes = 1 << 20;
static constexpr size_t maximumThreads = 8;

Hash sha256(const void *data, size_t bytes) {
  Hash hash;
  static const unsigned char nothing = 0;
  SHA256(bytes ? static_cast<const unsigned char *>(data) : &nothing, bytes,
         hash.data());
  return hash;
}

Hash treeHash(const void *data, size_t bytes) {
  const auto *begin = static_cast<const uint8_t *>(data);
  size_t leaves = (bytes + leafBytes - 1) / leafBytes;
  std::vector<uint8_t> hashes(leaves * sizeof(Hash));
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < leaves;) {
      Hash hash = sha256(begin + i * leafBytes,
                         std::min(leafBytes, bytes - i * leafBytes));
      std::memcpy(hashes.data() + i * sizeof(Hash), hash.data(), sizeof(Hash));
    }
  };
  size_t count = std::min({leaves / 8, maximumThreads,
                           size_t(std::thread::hardware_concurrency())});
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  return sha256(hashes.data(), hashes.size());
}

void TreeHasher::update(const void *data, size_t bytes) {
  const auto *begin = static_cast<const uint8_t *>(data);
  while (bytes) {
    size_t take = std::min(bytes, leafBytes - leaf.size());
    leaf.insert(leaf.end(), begin, begin + take);
    begin += take;
    bytes -= take;
    if (leaf.size() == leafBytes) {
      Hash hash = sha256(leaf.data(), leaf.size());
      leafHashes.insert(leafHashes.end(), hash.begin(), hash.end());
      leaf.clear();
    }
  }
}

Hash TreeHasher::finish() {
  if (!leaf.empty()) {
    Hash hash = sha256(leaf.data(), leaf.size());
    leafHashes.insert(leafHashes.end(), hash.begin(), hash.end());
    leaf.clear();
  }
  return sha256(leafHashes.data(), leafHashes.size());
}

std::string toHex(const Hash &hash, size_t digits) {
  static const char *hex = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : hash) {
    text += hex[byte >> 4];
    text += hex[byte & 15];
  }
  return text.substr(0, digits);
}

} // namespace lockstep::runtime

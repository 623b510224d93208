// Matches the graph's parameters and buffers with values: those stored in the
// archive, those of --weights, or rules to draw them by.
#include "compiler/import/pt2/Weights.h"

#include "compiler/import/ExternalWeights.h"
#include "compiler/import/pt2/Archive.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace lockstep;
using namespace lockstep::pt2;

namespace {
class StoreBuilder {
public:
  StoreBuilder(const Pt2File &file, const WeightOptions &options)
      : file(file), program(file.program), options(options) {}
  StatusOr<WeightStore> build();

private:
  Status addEntries();
  Status addEntry(const InputSpec &spec);
  Status addOutsideGraph(const StoredTensor &tensor);
  Status tieSharedRecords();
  Status tieByFlags();
  Status initParameters();
  Status takeExternal();
  Status requireValues() const;
  /// The entry's value is the archive's, when that has one.
  void takeStored(size_t index);

  const Pt2File &file;
  const ExportedProgram &program;
  const WeightOptions &options;
  WeightStore store;
  /// Per entry: its record in the archive, or null.
  std::vector<const StoredTensor *> stored;
  std::unordered_map<std::string_view, const StoredTensor *> storedByName;
};
} // namespace

//===-- Reading values ----------------------------------------------------===//

/// Copies a strided view out of its storage in row-major order.
static void copyView(const TensorMeta &meta, size_t elementBytes,
                     const std::byte *storage, std::byte *out) {
  size_t rank = meta.sizes.size();
  std::vector<int64_t> index(rank, 0);
  int64_t offset = meta.storageOffset.value;
  for (;;) {
    std::memcpy(out, storage + size_t(offset) * elementBytes, elementBytes);
    out += elementBytes;
    size_t dim = rank;
    while (dim > 0) {
      --dim;
      offset += meta.strides[dim].value;
      if (++index[dim] < meta.sizes[dim].value)
        break;
      offset -= meta.strides[dim].value * meta.sizes[dim].value;
      index[dim] = 0;
      if (dim == 0)
        return;
    }
    if (rank == 0)
      return;
  }
}

static bool isContiguous(const TensorMeta &meta) {
  int64_t expected = 1;
  for (size_t dim = meta.sizes.size(); dim-- > 0;) {
    if (meta.sizes[dim].value != 1 && meta.strides[dim].value != expected)
      return false;
    expected *= meta.sizes[dim].value;
  }
  return true;
}

static StatusOr<WeightBytes> readStored(const Archive &archive,
                                        const std::string &recordName,
                                        const TensorMeta &meta,
                                        uint64_t bytes) {
  WeightBytes result;
  result.bytes = bytes;
  if (bytes == 0)
    return result;
  const Archive::Record *record = archive.find(recordName);
  if (!record)
    return internalFault("record '" + recordName + "' is gone");
  auto storage = std::make_shared<std::vector<std::byte>>(record->bytes);
  LOCKSTEP_RETURN_IF_ERROR(archive.read(*record, storage->data()));
  size_t elementBytes = scalarTypeSize(meta.dtype);
  if (isContiguous(meta)) {
    result.data =
        storage->data() + size_t(meta.storageOffset.value) * elementBytes;
    result.keepAlive = std::move(storage);
    return result;
  }
  auto view = std::make_shared<std::vector<std::byte>>(bytes);
  copyView(meta, elementBytes, storage->data(), view->data());
  result.data = view->data();
  result.keepAlive = std::move(view);
  return result;
}

void StoreBuilder::takeStored(size_t index) {
  const StoredTensor *tensor = stored[index];
  WeightEntry &entry = store.entry(index);
  if (!tensor || tensor->usesPickle ||
      (tensor->isEmpty() && entry.bytes() != 0))
    return;
  bool isConstant = tensor->record.compare(0, 7, "weight_") != 0;
  std::string record = file.archive->root() +
                       (isConstant ? "data/constants/" : "data/weights/") +
                       tensor->record;
  entry.read = [archive = file.archive, record, meta = tensor->meta,
                bytes = entry.bytes()] {
    return readStored(*archive, record, meta, bytes);
  };
}

//===-- Entries -----------------------------------------------------------===//

Status StoreBuilder::addEntry(const InputSpec &spec) {
  WeightEntry entry;
  entry.name = spec.target;
  entry.role =
      spec.kind == InputSpec::Kind::Parameter ? WeightEntry::Role::Parameter
      : spec.kind == InputSpec::Kind::Buffer  ? WeightEntry::Role::Buffer
                                              : WeightEntry::Role::Constant;
  entry.persistent = spec.persistent;
  std::string what =
      std::string(inputKindName(spec.kind)) + " '" + spec.target + "'";
  const TensorMeta *meta = program.graph.tensor(spec.argument.tensorName());
  if (!meta)
    return inputError(what + " is not a tensor");
  std::optional<DType> dtype = toDType(meta->dtype);
  if (!dtype)
    return inputError(what + " has dtype " +
                      std::string(scalarTypeName(meta->dtype)) +
                      ", which is not supported");
  entry.dtype = *dtype;
  for (const SymInt &size : meta->sizes) {
    if (!size.isConcrete())
      return inputError(what + " has the symbolic size '" + toString(size) +
                        "'");
    entry.shape.push_back(size.value);
  }
  // Two bounds later code relies on.
  uint64_t bytes = dtypeSize(*dtype);
  for (int64_t size : entry.shape)
    if (__builtin_mul_overflow(bytes, uint64_t(size), &bytes) ||
        bytes > uint64_t(INT64_MAX))
      return inputError(what + " has the shape " + shapeText(entry.shape) +
                        ", which overflows 63 bits");
  auto it = storedByName.find(spec.target);
  const StoredTensor *tensor = it == storedByName.end() ? nullptr : it->second;
  if (tensor && !tensor->usesPickle) {
    std::vector<int64_t> shape;
    for (const SymInt &size : tensor->meta.sizes)
      shape.push_back(size.value);
    if (shape != entry.shape || tensor->meta.dtype != meta->dtype)
      return inputError(what + " is stored as " +
                        std::string(scalarTypeName(tensor->meta.dtype)) +
                        shapeText(shape) + ", but the graph takes " +
                        std::string(scalarTypeName(meta->dtype)) +
                        shapeText(entry.shape));
  }
  entry.requiresGrad =
      entry.role == WeightEntry::Role::Parameter &&
      (tensor && !tensor->usesPickle ? tensor->meta.requiresGrad
                                     : meta->requiresGrad);
  stored.push_back(tensor);
  return store.add(std::move(entry));
}

Status StoreBuilder::addEntries() {
  // Constants first: a name that is in both configs is a weight.
  for (const StoredTensor &tensor : program.constants)
    storedByName[tensor.name] = &tensor;
  for (const StoredTensor &tensor : program.weights)
    storedByName[tensor.name] = &tensor;
  for (const InputSpec &spec : program.inputSpecs)
    if (spec.kind == InputSpec::Kind::Parameter ||
        spec.kind == InputSpec::Kind::Buffer ||
        spec.kind == InputSpec::Kind::TensorConstant)
      LOCKSTEP_RETURN_IF_ERROR(addEntry(spec));
  for (const StoredTensor &tensor : program.weights)
    if (!store.find(tensor.name))
      LOCKSTEP_RETURN_IF_ERROR(addOutsideGraph(tensor));
  return Status::success();
}

Status StoreBuilder::addOutsideGraph(const StoredTensor &tensor) {
  std::optional<DType> dtype =
      tensor.usesPickle ? std::nullopt : toDType(tensor.meta.dtype);
  // Nothing needs its value, so what cannot be kept is left out.
  if (!dtype || (tensor.isEmpty() && options.weights.empty()))
    return Status::success();
  WeightEntry entry;
  entry.name = tensor.name;
  entry.role = tensor.isParameter ? WeightEntry::Role::Parameter
                                  : WeightEntry::Role::Buffer;
  entry.inGraph = false;
  entry.dtype = *dtype;
  for (const SymInt &size : tensor.meta.sizes)
    entry.shape.push_back(size.value);
  entry.requiresGrad = tensor.meta.requiresGrad;
  stored.push_back(&tensor);
  return store.add(std::move(entry));
}

//===-- Ties --------------------------------------------------------------===//

static bool isSameView(const TensorMeta &a, const TensorMeta &b) {
  auto same = [](const std::vector<SymInt> &x, const std::vector<SymInt> &y) {
    return std::equal(
        x.begin(), x.end(), y.begin(), y.end(),
        [](const SymInt &p, const SymInt &q) { return p.value == q.value; });
  };
  return a.dtype == b.dtype && same(a.sizes, b.sizes) &&
         same(a.strides, b.strides) &&
         a.storageOffset.value == b.storageOffset.value;
}

/// First and last element that a view touches.
static std::pair<int64_t, int64_t> span(const TensorMeta &meta) {
  int64_t last = meta.storageOffset.value;
  for (size_t i = 0; i < meta.sizes.size(); ++i)
    last += (meta.sizes[i].value - 1) * meta.strides[i].value;
  return {meta.storageOffset.value, last};
}

Status StoreBuilder::tieSharedRecords() {
  std::map<std::string, std::vector<size_t>> byRecord;
  for (size_t i = 0; i < stored.size(); ++i)
    if (stored[i] && !stored[i]->usesPickle && !stored[i]->isEmpty() &&
        store.entries()[i].role == WeightEntry::Role::Parameter &&
        store.entries()[i].elements() > 0)
      byRecord[stored[i]->record].push_back(i);
  for (auto &[record, indices] : byRecord) {
    // Views in storage order: each is its predecessor again, or begins after
    // everything before it ends.
    std::sort(indices.begin(), indices.end(), [&](size_t a, size_t b) {
      return std::make_pair(stored[a]->meta.storageOffset.value, a) <
             std::make_pair(stored[b]->meta.storageOffset.value, b);
    });
    int64_t end = -1;
    for (size_t k = 0; k < indices.size(); ++k) {
      const TensorMeta &meta = stored[indices[k]]->meta;
      if (k > 0 && isSameView(stored[indices[k - 1]]->meta, meta)) {
        LOCKSTEP_RETURN_IF_ERROR(store.tie(store.entries()[indices[k - 1]].name,
                                           store.entries()[indices[k]].name));
        continue;
      }
      auto [first, last] = span(meta);
      if (first <= end)
        return inputError("parameters '" +
                          store.entries()[indices[k - 1]].name + "' and '" +
                          store.entries()[indices[k]].name +
                          "' are different views of the same values, which is "
                          "not supported")
            .remedy("make one a copy of the other before the export");
      end = std::max(end, last);
    }
  }
  return Status::success();
}

Status StoreBuilder::tieByFlags() {
  for (const std::string &text : options.ties) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return usageError("--tie '" + text +
                        "' is not understood; expected A=B, "
                        "the names of two parameters");
    LOCKSTEP_RETURN_IF_ERROR(
        store.tie(text.substr(0, equals), text.substr(equals + 1))
            .at("--tie " + text));
  }
  return Status::success();
}

//===-- Sources -----------------------------------------------------------===//

Status StoreBuilder::initParameters() {
  LOCKSTEP_ASSIGN_OR_RETURN(InitRule rule, parseInitRule(options.init));
  std::vector<InitRule> rules = initRules(program, rule);
  std::unordered_map<std::string_view, InitRule> ruleOf;
  for (size_t i = 0; i < rules.size(); ++i)
    ruleOf[program.inputSpecs[i].target] = rules[i];
  for (size_t i = 0; i < store.entries().size(); ++i) {
    WeightEntry &entry = store.entry(i);
    if (entry.role != WeightEntry::Role::Parameter) {
      takeStored(i);
      continue;
    }
    const WeightEntry &owner = store.entries()[entry.owner];
    entry.init = owner.inGraph
                     ? ruleOf[owner.name]
                     : initRuleByName(owner.name, owner.shape.size(), rule);
  }
  return Status::success();
}

Status StoreBuilder::takeExternal() {
  LOCKSTEP_ASSIGN_OR_RETURN(ExternalMatch match,
                            matchExternal(store, options.weights));
  // Buffers and constants that the file leaves out are the archive's.
  std::vector<std::string> missing, fromArchive;
  for (size_t index : match.missing) {
    const WeightEntry &entry = store.entries()[index];
    if (entry.role != WeightEntry::Role::Parameter)
      takeStored(index);
    if (!entry.read && entry.inGraph)
      missing.push_back(entry.name);
    else if (entry.read && entry.role == WeightEntry::Role::Buffer &&
             entry.persistent)
      fromArchive.push_back(entry.name);
  }
  if (!missing.empty() || !match.unexpected.empty()) {
    std::string what;
    if (!missing.empty())
      what = "missing: " + listNames(missing);
    if (!match.unexpected.empty())
      what += (what.empty() ? "" : "; ") + std::string("unexpected: ") +
              listNames(match.unexpected);
    return inputError("the tensors are not the model's: " + what)
        .at(options.weights)
        .remedy("give the weights of this model; --tie A=B says that the model "
                "ties a missing one to another");
  }
  if (!fromArchive.empty())
    store.addNote("weights: taken from the exported file: " +
                  listNames(fromArchive, 4));
  return Status::success();
}

Status StoreBuilder::requireValues() const {
  std::vector<std::string> parameters, buffers, objects;
  for (size_t i = 0; i < store.entries().size(); ++i) {
    const WeightEntry &entry = store.entries()[i];
    if (!entry.inGraph || !entry.hasValue() ||
        store.entries()[entry.owner].read)
      continue;
    if (stored[i] && stored[i]->usesPickle)
      objects.push_back(entry.name);
    else
      (entry.role == WeightEntry::Role::Parameter ? parameters : buffers)
          .push_back(entry.name);
  }
  if (program.weightsFormat == WeightsFormat::Pickled &&
      (!parameters.empty() || !buffers.empty())) {
    std::string version = program.torchVersion.empty()
                              ? "torch before 2.9"
                              : "torch " + program.torchVersion;
    std::string what = "the weights in this file are a pickle (" + version +
                       "), which is never read";
    if (parameters.empty())
      what += "; it holds the buffers " + listNames(buffers, 8);
    return inputError(what).remedy(
        "give them with --weights FILE.safetensors, or export with torch 2.9 "
        "or later");
  }
  if (!objects.empty())
    return inputError("stored as tensor subclasses or Python objects, which "
                      "are never read: " +
                      listNames(objects, 8))
        .remedy("give the values with --weights FILE.safetensors");
  if (!buffers.empty())
    return inputError("buffers without values: " + listNames(buffers, 8))
        .remedy("export the model with its buffers on a real device, or give "
                "them with --weights");
  if (!parameters.empty())
    return inputError("the file has no values for " +
                      std::to_string(parameters.size()) +
                      " parameters: " + listNames(parameters, 4))
        .remedy("give them with --weights FILE.safetensors, or train from "
                "scratch with --weights none");
  return Status::success();
}

/// Leaves out what is neither in the graph nor has a value.
static StatusOr<WeightStore> withoutEmpty(const WeightStore &store) {
  WeightStore kept;
  for (const std::string &note : store.notes())
    kept.addNote(note);
  for (const WeightEntry &entry : store.entries()) {
    const WeightEntry &owner = store.entries()[entry.owner];
    if (!entry.inGraph && entry.hasValue() && !owner.read)
      continue;
    LOCKSTEP_RETURN_IF_ERROR(kept.add(entry));
    // The owner comes first and is kept with the entries that it owns.
    if (owner.name != entry.name)
      LOCKSTEP_RETURN_IF_ERROR(kept.tie(owner.name, entry.name));
  }
  return kept;
}

StatusOr<WeightStore> StoreBuilder::build() {
  LOCKSTEP_RETURN_IF_ERROR(addEntries().at(file.archive->path()));
  LOCKSTEP_RETURN_IF_ERROR(tieSharedRecords().at(file.archive->path()));
  LOCKSTEP_RETURN_IF_ERROR(tieByFlags());
  if (options.weights == "none") {
    LOCKSTEP_RETURN_IF_ERROR(initParameters());
  } else if (!options.weights.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(takeExternal());
  } else {
    for (size_t i = 0; i < store.entries().size(); ++i)
      takeStored(i);
  }
  LOCKSTEP_RETURN_IF_ERROR(requireValues().at(file.archive->path()));
  return withoutEmpty(store);
}

StatusOr<WeightStore> pt2::buildWeightStore(const Pt2File &file,
                                            const WeightOptions &options) {
  return StoreBuilder(file, options).build();
}

// The library in a worker. It opens the files that the page names, and answers one question at a time. It reads
// of the files what the library asks for, piece by piece.

let library = null;
let files = [];
const reader = new FileReaderSync();
const text = new TextEncoder();

/** Memory from an address on. Addresses beyond 2 GiB come as negative numbers. */
const memory = (address, length) => new Uint8Array(library.memory.buffer, address >>> 0, length >>> 0);

function read(number, offset, address, length) {
  try {
    const from = Number(offset);
    const part = reader.readAsArrayBuffer(files[number].slice(from, from + (length >>> 0)));
    if (part.byteLength !== length >>> 0) return 0;
    memory(address, length).set(new Uint8Array(part));
    return 1;
  } catch {
    return 0;
  }
}

let said = 0;

function progress(done, total) {
  const now = performance.now();
  if (total === 0n || now - said < 100) return;
  said = now;
  postMessage({ progress: Number(done) / Number(total) });
}

/** Calls a function of the library with a request. Gives whether it could be answered, and the answer. */
function call(name, request) {
  const bytes = text.encode(request);
  memory(library.request(bytes.length), bytes.length).set(bytes);
  const answered = library[name]() !== 0;
  return { answered, answer: memory(library.answer(), library.answer_len()).slice() };
}

function reply(name, request) {
  try {
    const found = call(name, request);
    postMessage(found, [found.answer.buffer]);
  } catch (error) {
    // Memory ran out, or the library has a fault: the page ends this worker.
    postMessage({ broken: String(error) });
  }
}

onmessage = async ({ data }) => {
  if (data.question !== undefined) {
    reply('ask', data.question);
    return;
  }
  files = data.files.map(({ file }) => file);
  ({ exports: library } = await WebAssembly.instantiate(data.module, { worker: { read, progress } }));
  reply('open', JSON.stringify(data.files.map(({ path, file }) => [path, file.size])));
};

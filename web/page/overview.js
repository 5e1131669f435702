// What a model is.

import { breakable, facts, h, head, name, notice, pairs, section, segments, shown, shownText } from './dom.js';
import { base, bits, bytes, count, exact, plural, quoted, whole } from './format.js';
import { columns, stack } from './charts.js';
import { KINDS, kindOf, layerName, layerOf, link, overview, stackName, tensors } from './state.js';
import { Table } from './table.js';
import * as take from './take.js';

/** A value of a config or of metadata on one line. */
function value(found) {
  if (Array.isArray(found)) {
    const some = found.slice(0, 8).map(value).join(', ');
    return `[${some}${found.length > 8 ? `, … ${whole(found.length)}` : ''}]`;
  }
  if (found && typeof found === 'object') {
    if ('array' in found) return `${whole(found.length)} of ${found.array}: [${(found.first ?? []).map(value).join(', ')}, …]`;
    if ('text' in found) return String(found.text);
    return JSON.stringify(found);
  }
  if (Object.is(found, -0)) return '-0';
  return typeof found === 'number' && !Number.isInteger(found) ? exact(found) : String(found);
}

/** The sizes of dtypes, the largest first. */
function byDtype(table) {
  const sums = new Map();
  table.dtype.forEach((dtype, at) => {
    sums.set(dtype, (sums.get(dtype) ?? 0) + table.bytes[at]);
  });
  const sorted = [...sums].sort((a, b) => b[1] - a[1]);
  const parts = sorted.slice(0, 4).map(([dtype, size], place) => ({ label: table.dtypes[dtype], size, color: `var(--k${place})` }));
  const rest = sorted.slice(4).reduce((sum, [, size]) => sum + size, 0);
  if (rest > 0) parts.push({ label: plural(sorted.length - 4, 'other dtype'), size: rest, color: 'var(--k4)' });
  return parts;
}

/** The sizes of layers by kind; what belongs to no layer comes first. */
function byLayer(table) {
  const layers = new Map();
  table.name.forEach((stored, at) => {
    const known = table.canonical[at] ?? stored;
    const found = layerOf(known);
    const key = found ? `${found.stack} ${found.layer}` : '';
    if (!layers.has(key)) layers.set(key, { order: found ? found.layer : -1, stack: found?.stack ?? '', label: found ? String(found.layer) : '–', start: found && stackName(found), title: found ? layerName(found) : 'outside the layers', prefix: found && `${found.stack ? `${found.stack}.` : ''}${found.layer}.`, parts: KINDS.map(() => 0) });
    layers.get(key).parts[kindOf(known)] += table.bytes[at];
  });
  return [...layers.values()].sort((a, b) => (a.order < 0 ? -1 : 0) - (b.order < 0 ? -1 : 0) || a.stack.localeCompare(b.stack) || a.order - b.order);
}

function configRows(config) {
  if (!config || config.error) return [];
  const rows = [];
  const walk = (found, group) => {
    for (const [key, entry] of Object.entries(found ?? {})) {
      if (entry && typeof entry === 'object' && 'value' in entry && 'source' in entry) rows.push({ group, name: key, value: entry.value, source: entry.source });
      else if (entry && typeof entry === 'object' && !Array.isArray(entry)) walk(entry, key);
    }
  };
  walk(config.config, 'model');
  walk({ tokenizer: config.tokenizer }, 'tokenizer');
  walk({ generation: config.generation }, 'generation');
  return rows;
}

function templates(tokenizer) {
  const list = tokenizer?.templates ?? [];
  if (!tokenizer?.kind) return null;
  if (list.length === 0) return section('Chat template', null, null, h('p', { class: 'muted' }, 'No chat template: programs that chat with the model choose one themselves.'));
  let chosen = list[0];
  const text = h('pre', { class: 'text', dir: 'auto', tabindex: 0, role: 'region', 'aria-label': 'Chat template' });
  const show = () => { text.textContent = shownText(chosen.text).slice(0, 200_000) + (chosen.text.length > 200_000 ? `\n… (${whole(chosen.text.length)} characters)` : ''); };
  show();
  const tools = [
    list.length > 1 && segments('Template', list.map((template, at) => [at, shown(template.name ?? 'default', 24)]), 0, (at) => { chosen = list[at]; show(); }),
    take.button('Copy', () => take.copy(chosen.text, 'Template copied')),
  ];
  return section('Chat template', `from ${shown(chosen.source, 60)}`, tools, text);
}

function metadata(found) {
  if (!found?.length) return null;
  const table = new Table({
    label: 'Metadata', height: '420px', rows: found,
    columns: [
      { label: 'Key', width: 'minmax(140px, 320px)', cell: (row) => name(row.key, 120), sort: (row) => row.key },
      { label: 'Type', width: '80px', hide: 'hide-s', cell: (row) => shown(row.type, 20) },
      { label: 'Value', cell: (row) => name(value(row.value), 400) },
    ],
    hint: (row) => shown(value(row.value), 800),
  });
  return section('Metadata', plural(found.length, 'key'), take.button('JSON', () => take.json('metadata', found)), table.node);
}

export async function show({ model, list }) {
  const [all, table] = await Promise.all([overview(model), tensors(model)]);
  const { report, config, consistency, tokenizer, path } = all;
  const { summary } = report;
  const fields = configRows(config);
  const field = (wanted) => fields.find((row) => row.name === wanted)?.value;
  const title = summary.name || base(path);
  const problems = [
    ...(consistency.faults ?? []).map((text) => notice('Fault', text)),
    ...(consistency.error ? [notice('Fault', consistency.error)] : []),
    ...[...(report.notes ?? []), ...(consistency.notes ?? [])].map((text) => notice('Note', text)),
  ];
  const seen = new Set();
  const notes = problems.filter((node) => !seen.has(node.textContent) && seen.add(node.textContent));
  const dtypes = byDtype(table);
  const [outside, layers] = [byLayer(table).filter((layer) => layer.order < 0), byLayer(table).filter((layer) => layer.order >= 0)];
  const outsideSize = outside.flatMap((group) => group.parts).reduce((sum, size) => sum + size, 0);
  const sizes = layers.length > 1 && columns(layers.map((layer) => ({ ...layer, href: link(model, 'tensors', { filter: layer.prefix }) })), bytes, { label: `Size of ${layers.length} layers by kind of tensor` });
  let group = null;
  const configTable = fields.length > 0 && h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Config' }, h('table', { class: 'plain' },
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Field'), h('th', { scope: 'col' }, 'Value'), h('th', { scope: 'col', class: 'hide-s' }, 'Source'))),
    h('tbody', {}, fields.map((row) => {
      const lead = row.group !== group && row.group !== 'model';
      group = row.group;
      return [lead && h('tr', { class: 'lead' }, h('td', { colspan: 3 }, row.group)),
        h('tr', {}, h('td', {}, breakable(row.name)), h('td', {}, name(value(row.value))), h('td', { class: 'muted hide-s' }, name(row.source)))];
    }))));
  const nodes = [
    head(name(title, 120), {
      crumb: [report.container, summary.version && ` version ${summary.version}`, report.architecture && ` · ${report.architecture}`].filter(Boolean),
      sub: [h('code', { class: 'name', dir: 'ltr' }, shown(path)), summary.license ? h('span', {}, 'License: ', name(summary.license, 80)) : h('span', {}, 'License not stated')],
    }),
    facts([
      ['Parameters', count(report.weight_count), summary.active_weights && `${count(summary.active_weights)} active for a token`],
      ['Size', bytes(report.file_bytes), bytes(report.file_bytes) !== bytes(report.stored_bytes) && `${bytes(report.stored_bytes)} of tensors`],
      ['Memory to run', all.memory && report.weight_count > 0 ? bytes(all.memory.bytes) : null, all.memory && `with ${plural(all.memory.context, 'token')}`],
      ['Type', name(summary.file_type ?? summary.main_dtype ?? '–', 40), summary.bits_per_weight !== null && `${bits(summary.bits_per_weight)} bits`],
      ['Layers', field('n_layers') !== undefined ? whole(field('n_layers')) : null, field('dim') !== undefined && `of width ${whole(field('dim'))}`],
      ['Heads', field('n_heads') !== undefined ? whole(field('n_heads')) : null, field('n_kv_heads') !== undefined && `${whole(field('n_kv_heads'))} for k and v`],
      ['Context', summary.context_length !== null ? whole(summary.context_length) : null, 'tokens'],
      ['Vocabulary', tokenizer?.tokens ? whole(tokenizer.tokens) : null, tokenizer?.kind],
      ['Tensors', whole(report.tensor_count)],
    ]),
    notes.length > 0 && h('div', { class: 'notices', role: 'region', 'aria-label': 'Faults and notes' }, notes.slice(0, 8), notes.length > 8 && h('p', { class: 'muted small' }, `and ${notes.length - 8} more: weighbridge verify lists them`)),
    table.name.length > 0 && section('Where the bytes are', null, null, h('h3', {}, 'By dtype'), stack(dtypes, bytes)),
    sizes && section('By layer', null, take.button('PNG', () => take.picture(`${title} layers`, sizes), 'Save the picture'),
      outsideSize > 0 && h('div', { class: 'outside' }, h('h3', {}, `Outside the layers: ${bytes(outsideSize)}`),
        stack(outside[0].parts.map((size, at) => ({ label: KINDS[at], size, color: `var(--k${at})` })).filter((part) => part.size > 0), bytes)),
      h('h3', {}, `In ${plural(layers.length, 'layer')}: ${bytes(layers.flatMap((layer) => layer.parts).reduce((sum, size) => sum + size, 0))}`),
      sizes,
      h('ul', { class: 'legend' }, KINDS.map((kind, at) => layers.some((layer) => layer.parts[at] > 0) && h('li', { vars: { '--c': `var(--k${at})` } }, h('i', { 'aria-hidden': 'true' }), kind)))),
    configTable && section('Config', 'What an engine needs, and where each value is from', take.button('JSON', () => take.json('config', config)), configTable),
    config.error && section('Config', null, null, notice('Note', config.error)),
    tokenizer?.kind && section('Tokenizer', null, null, pairs([
      ['Kind', name(tokenizer.kind)], ['Source', name(tokenizer.source)],
      ['Tokens', h('a', { href: link(model, 'tokens') }, whole(tokenizer.tokens))],
      ...tokenizer.special.map(([purpose, id, text]) => [shown(purpose, 40), h('a', { href: link(model, 'tokens', { search: id }) }, text !== null && h('code', { class: 'name', dir: 'auto' }, shown(text, 80)), h('span', { class: 'muted num' }, ` ${id}`))]),
    ])),
    tokenizer?.error && section('Tokenizer', null, null, notice('Note', tokenizer.error)),
    templates(tokenizer),
    metadata(report.metadata),
    section('Files', null, null, h('table', { class: 'plain' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'File'), h('th', { scope: 'col', class: 'hide-s' }, 'Kind'), h('th', { scope: 'col', class: 'right' }, 'Size'))),
      h('tbody', {}, report.files.slice(0, 200).map((file, at) => h('tr', {}, h('td', {}, name(file)), h('td', { class: 'hide-s' }, 'weights'), h('td', { class: 'right' }, bytes(all.file_sizes[at])))),
        report.attachments.map((file) => h('tr', {}, h('td', {}, name(file.name || file.file)), h('td', { class: 'hide-s' }, name(file.kind)), h('td', { class: 'right' }, bytes(file.bytes))))))),
    take.command(`weighbridge inspect ${quoted(path)} --metadata`),
  ];
  return { title: list.length > 0 ? shown(title, 60) : 'Overview', nodes: nodes.filter(Boolean) };
}


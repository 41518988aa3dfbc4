import { isRecord } from '../../../core/options.ts';
import type { KeyPath, Problem } from '../../config/problem.ts';
import { checkSchema } from '../../config/schema-problems.ts';
import type { ProblemSource } from '../../config/yaml-source.ts';
import { ID, type StepDefinition, stepSchema } from './definition-schema.ts';

/** A step on its way from what was written to what runs. */
export type StepDraft = {
  readonly id: string;
  readonly path: KeyPath;
  readonly definition: StepDefinition;
  readonly needs: readonly string[];
  /** The conditions of the group it is in, and its own. */
  readonly when: readonly { readonly text: string | boolean; readonly path: KeyPath }[];
  /** The members, if it is a group; it ends when they have. */
  readonly members: readonly string[] | undefined;
};

type Written = { readonly definition: StepDefinition; readonly path: KeyPath };

const GROUP_KEYS = new Set<string>(['id', 'name', 'description', 'parallel', 'needs', 'when', 'checkpoint']);

/** Lays the steps out flat: a group becomes its members and a step that needs them all. */
export class StepDrafts {
  readonly drafts: StepDraft[] = [];
  readonly problems: Problem[] = [];
  /** All ids, also of steps that are not understood, so that references to them are not a second problem. */
  readonly ids = new Set<string>();
  readonly #source: ProblemSource;

  constructor(source: ProblemSource, steps: readonly unknown[]) {
    this.#source = source;
    let previous: string | undefined;
    for (const [at, value] of steps.entries()) {
      const id = this.#add(value, ['steps', at], previous);
      previous = id ?? previous;
    }
  }

  #add(value: unknown, path: KeyPath, previous: string | undefined): string | undefined {
    const { value: definition, problems } = checkSchema({ source: this.#source, schema: stepSchema, value, path });
    this.problems.push(...problems);
    if (definition === undefined) return this.#noteId(value);
    const id = this.#idOf({ definition, path });
    if (id === undefined) return undefined;
    const needs =
      definition.needs === undefined ? (previous === undefined ? [] : [previous]) : toList(definition.needs);
    if (definition.parallel === undefined) this.#push({ definition, path }, id, needs);
    else this.#addGroup({ definition, path }, id, needs);
    return id;
  }

  #noteId(value: unknown): string | undefined {
    const { id, name } = isRecord(value) ? value : {};
    const known = id ?? name;
    if (typeof known !== 'string') return undefined;
    this.ids.add(known);
    return known;
  }

  #idOf({ definition, path }: Written): string | undefined {
    const id = definition.id ?? definition.name;
    if (id === undefined) this.#complain(path, 'needs an id.');
    else if (definition.id === undefined && !ID.test(id))
      this.#complain([...path, 'name'], `"${id}" cannot be an id, and there is no other. Add an id.`);
    else if (this.ids.has(id))
      this.#complain([...path, definition.id === undefined ? 'name' : 'id'], `"${id}" is taken by another step.`);
    else {
      this.ids.add(id);
      return id;
    }
    return undefined;
  }

  #push(written: Written, id: string, needs: readonly string[]): void {
    this.drafts.push({ id, ...written, needs, when: conditionOf(written), members: undefined });
  }

  #addGroup(group: Written, id: string, needs: readonly string[]): void {
    for (const key of Object.keys(group.definition))
      if (!GROUP_KEYS.has(key))
        this.#complain([...group.path, key], 'does not apply to a group; say it of its members.');
    const members: string[] = [];
    for (const [at, definition] of (group.definition.parallel ?? []).entries()) {
      const member = { definition, path: [...group.path, 'parallel', at] };
      const memberId = this.#idOf(member);
      if (memberId === undefined) continue;
      members.push(memberId);
      const own = definition.needs === undefined ? [] : toList(definition.needs);
      const when = [...conditionOf(group), ...conditionOf(member)];
      this.drafts.push({ id: memberId, ...member, needs: [...new Set([...needs, ...own])], when, members: undefined });
    }
    const draft = { id, ...group, needs: [...new Set([...needs, ...members])], when: conditionOf(group), members };
    this.drafts.push(draft);
  }

  #complain(path: KeyPath, message: string): void {
    this.problems.push(this.#source.place(path, message));
  }
}

function conditionOf({ definition, path }: Written): StepDraft['when'] {
  return definition.when === undefined ? [] : [{ text: definition.when, path: [...path, 'when'] }];
}

function toList(needs: string | readonly string[]): readonly string[] {
  return typeof needs === 'string' ? [needs] : needs;
}

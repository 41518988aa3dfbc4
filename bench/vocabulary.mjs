/** The words that `messages.mjs` makes chat out of. Drawn evenly, so that a text is no more predictable than real talk. */

const split = (text) => text.trim().split(/\s+/);

export const NOUNS = split(`
account adapter address agreement airport algorithm allowance analysis answer apartment appendix archive argument artefact assistant attempt audience
balance bandwidth banner barrier baseline battery benchmark boundary branch breakfast bridge browser budget buffer building bundle button
cabinet cache calendar camera campaign candidate carrier category ceiling certificate chapter charger checklist circuit citation client clinic cluster
colleague column comment committee compiler complaint component concept concert conclusion condition configuration connection constraint consumer container contract conversation
corridor counter coverage criterion currency customer cursor cycle damage dashboard database deadline debate decision default definition delivery department
deposit description destination detail device diagram dictionary difference digest dimension discount discovery district document domain download draft driver
duration editor effect effort elevator emphasis endpoint engine enquiry entrance environment episode equipment estimate evening evidence exception exercise experiment
expression factor failure feature festival figure filter flight folder footnote forecast foundation fragment framework freight function furniture future
garden gateway generator glossary government gradient grammar ground guarantee guideline handler harbour hardware harvest heading heritage highway history holiday
hospital hotel household identity illness import incident index industry influence ingredient inspection instance insurance integer interface interval inventory invoice
island issue journal journey justice kernel keyboard kitchen knowledge label landlord language latency launch lawyer layer leakage lecture ledger lesson
letter library licence lifetime limit listing location logic luggage machine magazine manager manual margin market material maximum measure mechanism
medicine meeting member memory merchant message method midnight migration minimum minority mirror mistake mixture model moment monitor morning mortgage
motion mountain museum network newsletter notebook notice number object observer occasion offer office operator opinion option orchestra order origin outcome
output overhead owner package painting paragraph parameter parent partition passenger pattern payment penalty percentage permission phrase pipeline platform
policy portion position possibility postcode prediction preference premise preparation presence pressure principle priority problem procedure process product
profile programme project promise proposal protein protocol prototype provider publisher purchase purpose quality quantity quarter question queue quota
radiator railway reaction reason receipt recipe recommendation record reduction reference refund region register regulation relation release reminder renewal
replacement report request requirement reservation resource response restaurant result retailer revenue revision reward river routine rumour sample satellite
scenario schedule schema scholar science scope screen script season secretary section sensor sentence sequence server service session setting shadow
shelter shipment signal signature silence similarity situation sketch software solution source specialist spectrum speech spreadsheet stability staircase standard
statement station statistic storage strategy stream street structure student subject subscription suburb suggestion summary supplier support surface survey
switch symbol symptom system tablet target tariff teacher technique template tenant terminal territory textbook theatre theory threshold ticket timeline
timeout token tolerance tomorrow topic tournament tower tradition traffic transcript transfer transition translation transport treatment trigger tunnel tutorial
umbrella union update upgrade usage utility vacancy vacation valley variable variant vehicle vendor venue version victim village visitor vocabulary volume
voltage voucher waiting warehouse warning warranty weather website weekend weight window winter witness worker workflow workshop worry writer yard zone`);

export const VERBS = split(`
accept achieve adapt adjust advise affect agree allow amend announce apply approve arrange assign assume attach attend avoid balance belong blame block borrow
build calculate cancel capture carry cause change check choose clarify collect combine compare complete compute confirm connect consider contain continue convert
correct cover create decide decline decrease define delay delete deliver deny depend describe design detect determine develop disable discuss display divide
double doubt edit emit enable encourage end enforce enter establish evaluate examine exceed exclude expand expect explain export expose extend extract fail fetch
finish fix focus follow forget format forward gather generate guess handle happen highlight hold identify ignore implement improve include increase indicate inform
inspect install interrupt introduce invest invite isolate join judge keep launch lead learn leave limit link list locate lower maintain manage match measure
mention merge migrate miss modify monitor move narrow need notice notify observe obtain offer open organise outline overlap pack parse pause perform permit
pick place plan postpone prefer prepare present preserve prevent print process produce promise propose protect prove provide publish pull push qualify quote raise
reach read realise rebuild recall receive recommend record recover reduce refer refresh refuse register reject relate relax release rely remain remember remove
rename repair repeat replace reply report represent request require reserve resolve respond restart restore restrict return reveal review revise rewrite round
save schedule search select separate serve settle share shift show shrink simplify skip solve sort specify split spread start state stay store submit suggest
summarise supply support suppose surprise suspect switch test throw trace track trade transfer translate treat trim trust try turn understand update upgrade use
validate vary verify view visit wait warn waste watch wonder work wrap write yield`);

export const ADJECTIVES = split(`
absent accurate active actual additional adequate advanced afraid alternative ambiguous ancient annual anonymous apparent appropriate available average awkward
basic brief bright broad broken busy careful central certain cheap circular civil clean clear close common compact complete complex concrete confident consistent
constant convenient cool corrupt critical crowded curious current daily dangerous dark dead deep delicate dense different difficult digital direct distinct double
dramatic dry due duplicate early eager easy economic efficient elderly electric empty enormous entire equal essential even exact excellent excessive exotic
expensive explicit external extra fair false familiar fast final financial firm flat flexible foreign formal former fragile free frequent fresh friendly full
general generous genuine global gradual green gross guilty happy harsh healthy heavy hidden hollow honest horizontal huge human idle illegal immediate implicit
impossible incomplete independent indirect inner innocent internal invalid invisible joint junior keen large late lazy legal level likely linear liquid little
local logical long loose loud low lucky main major manual marginal mature maximum mean medical mild minimal minor missing mobile modern modest multiple mutual
narrow native natural neat negative nervous neutral new noisy normal numerous obvious odd official old optional orange ordinary original outer partial passive
patient perfect permanent personal plain pleasant polite poor popular portable positive possible powerful practical precise previous primary private probable
proper proud public pure quick quiet random rapid rare raw ready realistic reasonable recent redundant regional regular relevant reliable remote responsible rich
rigid robust rough round rural safe scarce secondary secret secure senior sensible separate serious severe shallow sharp short significant silent similar simple
single slight slow small smooth social soft solid special specific stable stale standard steady steep sticky stiff straight strange strict strong subtle sudden
sufficient suitable surprising tall temporary tender thick thin thorough tight tiny tired total tough tropical typical unable uncertain uneven unique universal
unknown unlikely unusual upper urban urgent useful usual vague valid valuable various vast verbal vertical vital vivid vulnerable warm weak weekly weird wet
whole wide wild wise wooden wrong yellow young`);

export const ADVERBS = split(`
actually again almost already also always apparently barely briefly carefully certainly clearly completely constantly deliberately directly early easily entirely
especially eventually exactly explicitly finally frankly frequently fully generally gradually hardly hopefully immediately indeed initially instead largely lately
later locally maybe merely mostly naturally nearly never normally noticeably now obviously occasionally often once only originally otherwise partly perhaps
possibly precisely presumably previously probably properly quickly quietly rarely really recently repeatedly roughly sadly separately seriously shortly silently
simply slightly slowly somehow sometimes soon specifically still strictly suddenly surely temporarily together twice typically unfortunately usually virtually yet`);

export const NAMES = split(`
Aaliyah Adrian Agnieszka Amara Anton Aoife Birgit Camille Chidi Daniel Diego Élodie Emeka Farah Felix Grace Hana Henrik Imani Ines Ivan Jorge Jonas Kaito Keiko
Lars Leila Liam Lucia Magda Marco Mei Mireille Naomi Nikhil Olga Omar Paulo Priya Quentin Rahul Rosa Sara Sanjay Siobhan Tariq Tomas Ulrike Vera Wanjiru Xavier
Yara Yusuf Zoë Okafor Lindqvist Castellanos Nguyen Abernathy Petrov Haddad Kowalski Moreau Tanaka Fernandez O'Connor Mbeki Rossi Schaefer`);

export const PLACES = split(`
Lisbon Gdansk Nairobi Utrecht Osaka Montreal Valparaiso Tallinn Bristol Krakow Lyon Porto Bergen Seville Galway Ghent Accra Hanoi Turin Malmo Leeds Denver Quito
Adelaide Basel Cork Dakar Essen Fukuoka Graz`);

export const CODE_NAMES = split(`
fetchPage parseHeader retryPolicy userId orderTotal rowCount chunkSize tokenBudget nextCursor isExpired lastSeenAt maxAttempts toolResult baseUrl abortSignal
renderList groupByDay mergeRanges hashKey pendingJobs statusCode queueDepth elapsedMs configPath sessionStore applyPatch windowEnd taxRate vatNumber shipTo
listInvoices openTicket closeTicket weatherAt convertUnits embedText scoreMatch rankedHits dedupeBy flushBuffer leaseUntil writerEpoch headRef branchName`);

/** A template's capital words are replaced: N noun, V verb, P past, G gerund, A adjective, D adverb, W person, L place, C code name, # number, T time. */
export const SENTENCES = [
  'I think the A N should V the N before we V anything else.',
  'Could you D V whether the N still P the A N from L?',
  'W P the N on Tuesday, but the A N was D A.',
  'The N P # of # Ns, so the A N is # percent lower than the N we P in May.',
  'If the N is A, V the N and then V W about it.',
  "It's not obvious why the A N would V a A N; my guess is that `C` is A.",
  'There are # Ns left, # of them A, and W D P the rest at T.',
  'Before G the N, please V that every A N has a A N.',
  'That would D V the N, because a A N cannot V two Ns at once.',
  'We P this with W in L: the N must not V the A N.',
  'Sorry, I meant the A N, not the N that W D P last N.',
  'One A N is usually A enough, although G it takes # minutes or more.',
  'According to the N, the N P at T and nobody has P it since.',
  'Do you want me to V the N, or is a A N A for now?',
  'What happens when `C` is A and the N Vs before T?',
  'My N says the A N costs about # euros a month, which is D more than the N.',
  'First V the N; second, V the A N; third, D V whatever the N P.',
  'The A Ns of L are A in N, whereas those of L are D A.',
  'Nothing in the N Vs that, so I would D V it and V the N by hand.',
  'W and W D P about the N, and the N was A: V it.',
  "I've P `C` so that it Vs the N when the A N is A.",
  'Three things are A here: the N, the A N of the N, and G on a A N.',
  'Thanks, that D Vs it: the N was A all along.',
  'Hmm, G the N does not V; the N is still A after # attempts.',
  'As far as I can V, the A N belongs to W, who P it from a N in L.',
  'You can V the N with a A N, but V that the N is D A.',
  'Only # Ns were P between T and T, mostly A ones.',
  'Let me V the N once more and V how the A N Vs.',
];
